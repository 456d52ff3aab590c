package browser

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// focused is JavaScript for the name of the focused element, and whether the focus is
// visible.
const focused = `(() => {
	const e = document.activeElement;
	const style = getComputedStyle(e);
	const seen = e.matches(':focus-visible') && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
	return (e.id || e.className || e.closest('details').id) + (seen ? '' : ' unseen');
})()`

func TestThePageCanBeOperatedWithTheKeyboard(t *testing.T) {
	c := startContainer(t)
	g := startGate(t, c.port, c.probe())
	stop := load(t, g, 2, 5)
	b := openTab(t)
	b.open(g.page() + "/")
	b.awaits("the page shows figures", isState("ready")+` && Number(document.querySelector('#rate').textContent.replace(',', '')) > 0`, nil)
	i := 0
	const listed = `[...document.querySelectorAll('#failures-body tr')].filter((r) => r.checkVisibility()).length`
	b.awaits("errors are listed", listed+` === 10 && document.querySelector('#failures-all').checkVisibility()`, func() {
		burst(g, fmt.Sprintf("/broken/%d", i), 1)
		i++
	})

	var order []string
	for len(order) < 12 && (len(order) == 0 || order[len(order)-1] != "settings-summary") {
		b.press(kb.Tab)
		order = append(order, evaluate[string](b, focused))
	}
	if want := []string{"skip", "window-10", "cursor", "table", "failures-all", "settings-summary"}; !slices.Equal(order, want) {
		t.Fatalf("the order of the focus is %q, want %q", order, want)
	}

	evaluate[bool](b, `document.querySelector('#failures-all').focus() ?? true`)
	b.press(kb.Enter)
	b.awaits("Enter shows all errors", listed+` > 10`, nil)
	b.readable("all errors")
	evaluate[bool](b, `document.querySelector('#settings-summary').focus() ?? true`)
	b.press(kb.Enter)
	b.awaits("Enter opens the configuration", `document.querySelector('#settings').open`, nil)
	evaluate[bool](b, `document.querySelector('#table summary').focus() ?? true`)
	b.press(kb.Enter)
	b.awaits("Enter opens the table", `document.querySelectorAll('#table-body tr').length > 0 &&
		document.querySelector('#table-body td').textContent.includes(':')`, nil)

	evaluate[bool](b, `document.querySelector('#cursor').focus() ?? true`)
	b.press(kb.ArrowLeft)
	b.awaits("the arrow keys select an instant", `/^\d\d:\d\d:\d\d: concurrency /.test(document.querySelector('#cursor').getAttribute('aria-valuetext')) &&
		/^\d\d:\d\d:\d\d$/.test(document.querySelector('#readout strong').textContent)`, nil)
	b.press(kb.Escape)
	b.awaits("Escape returns to now", `document.querySelector('#readout strong').textContent === 'now'`, nil)
	stop()
	if got := b.complaints(""); len(got) > 0 {
		t.Errorf("the browser reports problems: %q", got)
	}
}
