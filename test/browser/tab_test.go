package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// failsafe limits every wait. It only ends tests that would hang.
const failsafe = 30 * time.Second

// tab is a browser tab.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string // reported by the browser
	fetched  []string // URLs
}

func openTab(t *testing.T) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(theBrowser)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.take); err != nil {
		t.Fatal(err)
	}
	b.size(1280, 900)
	return b
}

func (b *tab) take(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, fmt.Sprint("exception: ", e.ExceptionDetails.Text, toJSON(e.ExceptionDetails.Exception)))
	case *runtime.EventConsoleAPICalled:
		b.problems = append(b.problems, fmt.Sprint("console: ", e.Type, toJSON(e.Args)))
	case *log.EventEntryAdded:
		b.problems = append(b.problems, fmt.Sprint(e.Entry.Source, " ", e.Entry.Level, ": ", e.Entry.Text, " ", e.Entry.URL))
	case *network.EventRequestWillBeSent:
		b.fetched = append(b.fetched, e.Request.URL)
	}
}

func toJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// complaints returns the problems that the browser has reported. If the parameter is not
// empty, problems that begin with this text are omitted.
func (b *tab) complaints(except string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.problems), func(p string) bool { return except != "" && strings.HasPrefix(p, except) })
}

// elsewhere returns the fetched URLs that do not begin with origin.
func (b *tab) elsewhere(origin string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.fetched), func(url string) bool { return strings.HasPrefix(url, origin+"/") })
}

func (b *tab) do(step chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, failsafe)
	defer cancel()
	if err := chromedp.Do(ctx, step); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

func (b *tab) size(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height, chromedp.EmulateScale(1)))
}

// prefer sets CSS media features, such as prefers-color-scheme. The arguments are name,
// value, name, value and so on.
func (b *tab) prefer(features ...string) {
	b.t.Helper()
	var p emulation.SetEmulatedMediaParams
	for i := 0; i < len(features); i += 2 {
		p.Features = append(p.Features, &emulation.MediaFeature{Name: features[i], Value: features[i+1]})
	}
	b.do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, p)
		return chromedp.Void{}, err
	})
}

func (b *tab) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// evaluate returns the value of a JavaScript expression.
func evaluate[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, failsafe)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// evaluateAsync returns the value of a promise.
func evaluateAsync[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, failsafe)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// text returns the text of the first matching element.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return evaluate[string](b, fmt.Sprintf("(document.querySelector(%q)?.textContent ?? '')", selector))
}

// awaits evaluates a JavaScript expression repeatedly until it is true. Before each
// evaluation it calls the last parameter, unless this is nil. If the expression is still
// false after the duration failsafe, the test fails, and the message contains the first
// parameter.
func (b *tab) awaits(description, expression string, meanwhile func()) {
	b.t.Helper()
	for deadline := time.Now().Add(failsafe); ; time.Sleep(50 * time.Millisecond) {
		if meanwhile != nil {
			meanwhile()
		}
		if evaluate[bool](b, "Boolean("+expression+")") {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("not within %v: %s\nproblems: %q\npage: %s", failsafe, description, b.complaints(""), evaluate[string](b, "document.body.innerText"))
		}
	}
}

// screenshot saves a picture of the whole page.
func (b *tab) screenshot(name string) {
	b.t.Helper()
	dir := screenshotDir
	if dir == "" {
		dir = b.t.TempDir()
	}
	ctx, cancel := context.WithTimeout(b.ctx, failsafe)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if len(picture) == 0 {
		b.t.Errorf("the picture %s is empty", name)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
