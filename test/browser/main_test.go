package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/queuegate/queuegate/test/internal/launch"
)

var (
	queueBinary   string
	theBrowser    context.Context // all tests open their tabs in it
	screenshotDir string          // "" = a temporary directory per test
)

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if queueBinary, err = launch.GateBinary(dir); err != nil {
		return 0, err
	}
	if screenshotDir = os.Getenv("SCREENSHOTS"); screenshotDir != "" {
		if err := os.MkdirAll(screenshotDir, 0o755); err != nil {
			return 0, err
		}
	}
	chromium, err := findChromium()
	if err != nil {
		return 0, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium),
		chromedp.Flag("disable-dev-shm-usage", true), // /dev/shm is small in containers
		chromedp.Flag("lang", "en"))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	started, end := chromedp.NewContext(allocator)
	defer end()
	if err := chromedp.Do(started); err != nil {
		return 0, fmt.Errorf("starting %s: %w", chromium, err)
	}
	theBrowser = started
	return m.Run(), nil
}

func findChromium() (string, error) {
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no chromium, chromium-browser or google-chrome in PATH, and CHROMIUM is not set")
}
