package browser

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestAPictureOfTheStatusPageIsMadeFromAMinuteOfTraffic makes the picture of the
// README, docs/status.png:
//
//	PICTURE=../../docs/status.png go test -run Picture .
//
// A gate with eight slots serves a steady load for a minute, with a burst that
// overflows the queue and two requests that the container fails.
func TestAPictureOfTheStatusPageIsMadeFromAMinuteOfTraffic(t *testing.T) {
	file := os.Getenv("PICTURE")
	if file == "" {
		t.Skip("PICTURE names no file")
	}
	c := startContainer(t)
	g := startGate(t, c.port, c.probe(), "CONTAINER_CONCURRENCY=8", "QUEUE_CAPACITY=10",
		"SERVING_POD=web-00007-deployment-5d9c8", "SERVING_REVISION=web-00007", "SERVING_NAMESPACE=shop")
	b := openTab(t)
	b.show(view{"picture", 1180, 800, "light"})
	b.open(g.page() + "/")
	b.awaits("the page is live", isState("ready"), nil)
	stop := load(t, g, 5, 60)
	time.Sleep(10 * time.Second)
	stop()
	stop = load(t, g, 9, 80)
	time.Sleep(12 * time.Second)
	// Stop the steady load before the burst. Otherwise the full queue would also reject
	// requests of the steady load. The clients of the steady load would retry at once and
	// cause many more rejections.
	stop()
	burst(g, "/report?ms=700", 40)
	stop = load(t, g, 9, 80)
	time.Sleep(12 * time.Second)
	burst(g, "/broken", 2)
	stop()
	stop = load(t, g, 6, 40)
	b.awaits("the charts cover a whole minute", `/up 1 min 0 s/.test(document.querySelector('#build').textContent) &&
		document.querySelector('#history-title').textContent === 'Last 1 min'`, nil)
	evaluate[bool](b, `document.querySelectorAll('.columns, main > section:last-child, #readout, #table').forEach((e) => { e.style.display = 'none'; }) ?? true`)
	b.awaits("the page is laid out again", `document.documentElement.scrollHeight < 1100`, nil)
	screenshotDir = filepath.Dir(file)
	b.screenshot("status")
	stop()
	if made := filepath.Join(screenshotDir, "status.png"); made != file {
		if err := os.Rename(made, file); err != nil {
			t.Fatal(err)
		}
	}
}
