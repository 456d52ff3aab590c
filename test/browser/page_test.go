package browser

import (
	"strings"
	"testing"
)

func TestThePageShowsLoadAReadinessChangeAndARejection(t *testing.T) {
	c := startContainer(t)
	g := startGate(t, c.port, c.probe(), "CONTAINER_CONCURRENCY=6", "QUEUE_CAPACITY=12",
		"SERVING_POD=web-00007-deployment-5d9c8", "SERVING_REVISION=web-00007", "SERVING_NAMESPACE=shop")
	stop := load(t, g, 9, 25)
	b := openTab(t)
	b.open(g.page() + "/")
	b.awaits("the page is live", isState("ready"), nil)

	b.awaits("figures of the load", `Number(document.querySelector('#in-flight').textContent) > 0 &&
		Number(document.querySelector('#rate').textContent.replace(',', '')) > 20 &&
		/^[0-9.]+$/.test(document.querySelector('#p99').textContent) &&
		/MB|kB/.test(document.querySelector('#bytes-out').textContent)`, nil)
	before := b.text("#outcomes")
	b.awaits("outcomes move", `document.querySelector('#outcomes').textContent !== `+toJSON(before), nil)
	b.awaits("the heat strip has colours", `(() => {
		const c = document.querySelector('#chart-latency');
		const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
		const seen = new Set();
		for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
		return seen.size > 10;
	})()`, nil)

	c.unready.Store(true)
	b.awaits("the container is failing, and why", `document.querySelector('.badge').textContent === 'failing' &&
		document.querySelector('.changes').textContent.includes('503') &&
		document.querySelector('#announce').textContent === 'Not ready: user-container: answered with status 503.'`, func() { probe(g) })
	c.unready.Store(false)
	b.awaits("the container is ready again", `document.querySelector('.badge').textContent === 'ready' &&
		document.querySelector('.changes li').textContent.includes('while failing') &&
		/failing for .* ready for/.test(document.querySelector('#chart-readiness').getAttribute('aria-label'))`, func() { probe(g) })

	if got := burst(g, "/orders/12?ms=50&token=hidden", 60); got[503] == 0 {
		t.Fatalf("nothing was rejected: %v", got)
	}
	burst(g, "/broken", 2)
	b.awaits("rejections and errors are listed", `(() => {
		const rows = [...document.querySelectorAll('#failures-body tr')].map((r) => r.textContent);
		return rows.some((r) => r.includes('queue-full') && r.includes('503') && r.includes('GET /orders/12')) &&
			rows.some((r) => r.includes('500') && r.includes('GET /broken'));
	})()`, nil)
	if row := b.text("#failures-body"); !strings.Contains(row, " more queue-full") {
		t.Errorf("of more than 40 rejections in a second, the list says %q", row)
	}
	if note := b.text("#failures-note"); !strings.Contains(note, "are listed") {
		t.Errorf("of more than 40 rejections in a second, the note says %q", note)
	}
	b.awaits("a ready gate with failing requests is shown as a warning", isState("ready")+` && document.querySelector('#state').dataset.level === 'warn' &&
		`+stateText+`.startsWith('Ready: ') && `+stateText+`.endsWith(' failed in the last 10 s')`, func() { burst(g, "/broken", 2) })
	b.screenshot("ready-failing")
	pageText := evaluate[string](b, "document.documentElement.textContent")
	for _, secret := range []string{"hidden", probeSecret} {
		if strings.Contains(pageText, secret) {
			t.Errorf("the page shows %q", secret)
		}
	}
	if !strings.Contains(pageText, "CONTAINER_CONCURRENCY") || !strings.Contains(pageText, "•••") {
		t.Error("the configuration or its mask is missing")
	}

	stop()
	b.awaits("figures return to zero", `document.querySelector('#in-flight').textContent === '0' &&
		document.querySelector('#rate').textContent === '0'`, nil)
	b.awaits("the figures of the last 10 s are empty", `document.querySelector('#p50').textContent === '–' &&
		document.querySelector('#refused').textContent === '0'`, nil)
	for _, window := range []string{"1", "2"} {
		b.awaits("a longer window still has the requests", `(() => {
			document.querySelector('#windows [value="`+window+`"]').click();
			return document.querySelector('#p50').textContent !== '–' && ['ms', 's'].includes(document.querySelector('#p99-unit').textContent) &&
				document.querySelector('#refused').textContent !== '0' && document.querySelector('#failed').textContent !== '0';
		})()`, nil)
	}
	if got := b.complaints(""); len(got) > 0 {
		t.Errorf("the browser reports problems: %q", got)
	}
	if got := b.elsewhere(g.page()); len(got) > 0 {
		t.Errorf("the page fetches from another origin: %q", got)
	}
}

// view is a viewport and a color scheme.
type view struct {
	name          string
	width, height int64
	scheme        string
}

var views = []view{
	{"light", 1280, 900, "light"}, {"dark", 1280, 900, "dark"},
	{"narrow", 390, 844, "light"}, {"narrow-dark", 390, 844, "dark"},
	{"least", 360, 640, "light"},
}

func (b *tab) show(v view) {
	b.t.Helper()
	b.size(v.width, v.height)
	b.prefer("prefers-color-scheme", v.scheme, "prefers-reduced-motion", "reduce")
}

// readable checks that nothing is wider than the view, that nothing is clipped, and that
// all text is legible.
func (b *tab) readable(name string) {
	b.t.Helper()
	if wide := evaluate[int64](b, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
		b.t.Errorf("%s: %d px too wide", name, wide)
	}
	if got := evaluate[[]string](b, illegible); len(got) > 0 {
		b.t.Errorf("%s: too little contrast: %q", name, got)
	}
	if got := evaluate[[]string](b, clipped); len(got) > 0 {
		b.t.Errorf("%s: part of it is cut off: %q", name, got)
	}
}

// clipped is a JavaScript expression. It finds the visible elements whose content is
// taller than the element, so that a part of the content is cut off. Its value is a list
// of their names.
const clipped = `[...document.body.querySelectorAll('*')]
	.filter((e) => e.checkVisibility() && !e.closest('.unseen, svg') && getComputedStyle(e).overflowY !== 'visible' && e.scrollHeight > e.clientHeight + 1)
	.map((e) => e.id || e.className || e.tagName)`

func TestInEveryViewNothingOverflowsAndAllTextIsLegible(t *testing.T) {
	c := startContainer(t)
	g := startGate(t, c.port, c.probe(), "CONTAINER_CONCURRENCY=6", "QUEUE_CAPACITY=12",
		"SERVING_POD=web-00007-deployment-5d9c8", "SERVING_REVISION=web-00007", "SERVING_NAMESPACE=shop")
	load(t, g, 9, 25)
	b := openTab(t)
	b.open(g.page() + "/")
	c.unready.Store(true)
	b.awaits("the container is failing", `document.querySelector('.badge')?.textContent === 'failing'`, func() { probe(g) })
	c.unready.Store(false)
	b.awaits("the container is ready", `document.querySelector('.badge').textContent === 'ready'`, func() { probe(g) })
	burst(g, "/a/rather/long/path/that/"+strings.Repeat("goes/on/", 15), 60)
	burst(g, "/broken", 3)
	b.awaits("rejections are listed", `document.querySelectorAll('#failures-body tr').length > 1`, nil)
	for _, v := range views {
		b.show(v)
		for _, open := range []string{"false", "true"} {
			evaluate[bool](b, `document.querySelectorAll('#table, #settings').forEach((d) => { d.open = `+open+` }) ?? true`)
			name := v.name
			if open == "true" {
				name += "-open"
			}
			b.readable(name)
			b.screenshot(name)
		}
		if moving := evaluate[int](b, "document.getAnimations().length"); moving > 0 {
			t.Errorf("%s: %d animations although less motion is preferred", v.name, moving)
		}
	}
	if got := b.complaints(""); len(got) > 0 {
		t.Errorf("the browser reports problems: %q", got)
	}
}

// illegible is JavaScript for texts and icons with less contrast than WCAG 2.2 requires
// (1.4.3 and 1.4.11).
const illegible = `(() => {
	const parse = (c) => (c.match(/[\d.]+/g) ?? []).map(Number);
	const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
		.map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const ground = (e) => {
		for (; e; e = e.parentElement) {
			const c = parse(getComputedStyle(e).backgroundColor);
			if (c.length === 3 || c[3] === 1) return c;
		}
		return [255, 255, 255];
	};
	const found = [];
	const compare = (e, color, least, what) => {
		const a = light(parse(color)), b = light(ground(e));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < least) found.push(what + ' ' + ratio.toFixed(2));
	};
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walker.nextNode()) {
		const text = walker.currentNode.textContent.trim();
		const e = walker.currentNode.parentElement;
		if (text === '' || e.closest('noscript, script') || !e.checkVisibility()) continue;
		compare(e, getComputedStyle(e).color, 4.5, text.slice(0, 30));
	}
	for (const icon of document.querySelectorAll('svg')) compare(icon, getComputedStyle(icon).stroke, 3, 'icon');
	return [...new Set(found)];
})()`

func TestAPageWithoutRequestsSaysSo(t *testing.T) {
	c := startContainer(t)
	g := startGate(t, c.port, "SERVING_READINESS_PROBE=none")
	b := openTab(t)
	b.open(g.page() + "/")
	b.awaits("the page is live", isState("ready"), nil)
	for selector, want := range map[string]string{
		"#in-flight": "0", "#queue": "0", "#rate": "0", "#p50": "–", "#p99": "–", "#limit": "no limit",
		"#failures-note": "None since the start.", "#outcomes": "None has ended yet.",
		"#containers": "Readiness is not probed: the container counts as ready at all times.",
	} {
		if got := b.text(selector); got != want {
			t.Errorf("%s says %q, want %q", selector, got, want)
		}
	}
	b.screenshot("no-data")
	if got := b.complaints(""); len(got) > 0 {
		t.Errorf("the browser reports problems: %q", got)
	}
}
