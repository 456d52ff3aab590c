package knative

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	netcfg "knative.dev/networking/pkg/config"
	"knative.dev/networking/pkg/http/header"
	autoscalingv1alpha1 "knative.dev/serving/pkg/apis/autoscaling/v1alpha1"
	"knative.dev/serving/pkg/apis/serving"
	"knative.dev/serving/pkg/autoscaler/metrics"
	"knative.dev/serving/pkg/resources"

	"github.com/queuegate/queuegate/test/internal/launch"
)

const (
	revision    = "web-00001"
	stableSpan  = 6 * time.Second // the shortest stable window of Knative
	longestName = 253             // limit on a pod name in bytes
	statLimit   = 336             // unexported size limit of Knative's client in bytes
)

// autoscaler reads the gate's statistics as Knative's autoscaler does: with Knative's own
// scraper, collector and decoder. The scraper finds the gate's pod in a list in memory,
// because there is no API server.
type autoscaler struct {
	t      *testing.T
	gate   *gate
	stats  int // port of the stat
	page   int // port of the Prometheus page
	metric *autoscalingv1alpha1.Metric
	metrics.StatsScraper
}

func startAutoscaler(t *testing.T, userPort int, settings ...string) *autoscaler {
	t.Helper()
	a := &autoscaler{t: t, stats: launch.FreePort(t), page: launch.FreePort(t)}
	a.gate = startGate(t, userPort, append([]string{
		fmt.Sprintf("AUTOSCALER_METRICS_PORT=%d", a.stats), fmt.Sprintf("METRICS_PORT=%d", a.page),
	}, settings...)...)
	a.metric = &autoscalingv1alpha1.Metric{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: revision, Labels: map[string]string{
			serving.ServiceLabelKey: "web", serving.ConfigurationLabelKey: "web",
		}},
		Spec: autoscalingv1alpha1.MetricSpec{ScrapeTarget: revision, StableWindow: stableSpan, PanicWindow: stableSpan},
	}
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	err := pods.Add(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: revision + "-abc", Labels: map[string]string{serving.RevisionLabelKey: revision}},
		Status: v1.PodStatus{
			// The scraper appends ":9090/metrics" to this address. After the question
			// mark, the appended text is only a query, so the test can use any port.
			PodIP:      launch.Address(a.stats) + "/metrics?",
			Phase:      v1.PodRunning,
			StartTime:  &metav1.Time{},
			Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	a.StatsScraper = newScraper(a.metric, revision, resources.NewPodAccessor(corev1listers.NewPodLister(pods), "shop", revision),
		false, netcfg.MeshCompatibilityModeDisabled, zap.NewNop().Sugar())
	eventually(t, "both metrics ports accept connections", func() bool { return launch.Accepts(launch.Address(a.stats)) && launch.Accepts(launch.Address(a.page)) })
	return a
}

// newScraper calls Knative's NewStatsScraper by reflection, because its parameters depend
// on the version of Knative. Since Knative 1.19 the last parameter is a meter provider.
func newScraper(arguments ...any) metrics.StatsScraper {
	function := reflect.ValueOf(metrics.NewStatsScraper)
	if len(arguments) < function.Type().NumIn() {
		arguments = append(arguments, noop.NewMeterProvider())
	}
	var values []reflect.Value
	for _, a := range arguments {
		values = append(values, reflect.ValueOf(a))
	}
	return function.Call(values)[0].Interface().(metrics.StatsScraper)
}

// message reads one message of the gate, and returns its fields and its size in bytes. It
// decodes the message as Knative's client does, which is not exported. Knative's scraper
// is no alternative, because its result lacks the name and the uptime of the pod.
func (a *autoscaler) message() (stat metrics.Stat, size int) {
	a.t.Helper()
	response, body := a.get(a.stats, http.Header{"Accept": {header.ProtobufMIMEType}})
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || kind != header.ProtobufMIMEType {
		a.t.Fatalf("status %d, Content-Type %s", response.StatusCode, kind)
	}
	if err := stat.Unmarshal(body); err != nil {
		a.t.Fatal(err)
	}
	return stat, len(body)
}

func (a *autoscaler) get(port int, fields http.Header) (*http.Response, []byte) {
	a.t.Helper()
	request, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, "http://"+launch.Address(port)+"/metrics", nil)
	if err != nil {
		a.t.Fatal(err)
	}
	request.Header = fields
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return response, body
}

// fullWindow waits until a whole second has begun and ended on the gate's clock. The
// gate reports figures of the last complete second, so afterwards the figures do not
// include the time before the call of fullWindow.
func (a *autoscaler) fullWindow() {
	a.t.Helper()
	now, _ := a.message()
	from := math.Floor(now.ProcessUptime) + 2
	eventually(a.t, "a second has passed on the gate's clock", func() bool {
		now, _ := a.message()
		return now.ProcessUptime >= from
	})
}

// holder is a container that responds only after release.
type holder struct {
	port    int
	began   chan struct{}
	release func()
}

func newHolder(t *testing.T) *holder {
	end := make(chan struct{})
	h := &holder{began: make(chan struct{}, 100), release: sync.OnceFunc(func() { close(end) })}
	h.port = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.began <- struct{}{}
		<-end
	}))
	t.Cleanup(h.release) // runs before the server is closed
	return h
}

// send sends requests to the gate, and returns a function that waits for all responses.
// The proxied requests have the header field of a request that came through Knative's
// activator; the direct requests lack it.
func send(t *testing.T, g *gate, proxied, direct int) func() {
	var all sync.WaitGroup
	for i := range proxied + direct {
		all.Go(func() {
			request, err := http.NewRequest(http.MethodGet, g.url("/"), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if i < proxied {
				request.Header.Set("K-Proxy-Request", "activator")
			}
			response, err := http.DefaultTransport.RoundTrip(request)
			if err != nil {
				t.Error(err)
				return
			}
			_ = response.Body.Close()
		})
	}
	return all.Wait
}

// within reports whether got is within 1 % of want.
func within(got, want float64) bool { return math.Abs(got-want) <= want/100 }

func TestAutoscalerReadsSevenRequestsOfWhichThreeAreProxied(t *testing.T) {
	for name, limit := range map[string]int{"all in flight": 0, "two of them queued": 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			container := newHolder(t)
			a := startAutoscaler(t, container.port, fmt.Sprintf("CONTAINER_CONCURRENCY=%d", limit))
			awaitResponses := send(t, a.gate, 3, 4)
			inFlight := 7
			if limit > 0 {
				inFlight = limit
			}
			for range inFlight {
				<-container.began
			}
			eventually(t, "the others are queued", func() bool {
				_, page := a.get(a.page, nil)
				return strings.Contains(string(page), fmt.Sprintf("\nkn_serving_queue_depth %d\n", 7-inFlight))
			})

			a.fullWindow()
			stat, err := a.Scrape(stableSpan)
			if err != nil {
				t.Fatal(err)
			}
			if !within(stat.AverageConcurrentRequests, 7) || !within(stat.AverageProxiedConcurrentRequests, 3) {
				t.Errorf("the scraper reads %v, want 7 requests, 3 of them proxied", &stat)
			}
			if stat.RequestCount != 0 || stat.ProxiedRequestCount != 0 {
				t.Errorf("the scraper reads %v, want no arrivals in a later window", &stat)
			}

			a.collects(4)

			container.release()
			awaitResponses()
			eventually(t, "after the last has ended the scraper reads nothing", func() bool {
				stat, err := a.Scrape(stableSpan)
				return err == nil && stat == (metrics.Stat{PodName: stat.PodName})
			})
		})
	}
}

// The gate reports the arrivals of the last complete second, which the autoscaler uses
// for the metric rps.
func TestAutoscalerReadsTheArrivalsOfOneSecond(t *testing.T) {
	t.Parallel()
	a := startAutoscaler(t, serve(t, http.NotFoundHandler()))
	// Each report counts the arrivals of one second. The ten requests may arrive in two
	// different seconds. If so, send ten requests again.
	eventually(t, "the scraper reads 10 arrivals, 3 of them proxied", func() bool {
		a.fullWindow()
		send(t, a.gate, 3, 7)()
		now, _ := a.message()
		for end := math.Floor(now.ProcessUptime) + 2; now.ProcessUptime < end; now, _ = a.message() {
			stat, err := a.Scrape(stableSpan)
			if err != nil {
				t.Fatal(err)
			}
			if stat.RequestCount == 10 && stat.ProxiedRequestCount == 3 {
				return true
			}
		}
		return false
	})
}

// collects runs Knative's scrape loop until the loop has computed the wanted stable
// concurrency. The stable concurrency excludes proxied requests, because the activator
// reports them.
func (a *autoscaler) collects(want float64) {
	a.t.Helper()
	collector := metrics.NewMetricCollector(func(*autoscalingv1alpha1.Metric, *zap.SugaredLogger) (metrics.StatsScraper, error) {
		return a.StatsScraper, nil
	}, zap.NewNop().Sugar())
	// The test needs no notification of errors, because the second CreateOrUpdate returns
	// the last error of the scrape loop.
	collector.Watch(func(types.NamespacedName) {})
	if err := collector.CreateOrUpdate(a.metric); err != nil {
		a.t.Fatal(err)
	}
	defer collector.Delete(a.metric.Namespace, a.metric.Name)
	key := types.NamespacedName{Namespace: a.metric.Namespace, Name: a.metric.Name}
	eventually(a.t, fmt.Sprintf("Knative's collector has a stable concurrency of %v", want), func() bool {
		stable, _, err := collector.StableAndPanicConcurrency(key, time.Now())
		return err == nil && within(stable, want)
	})
	if err := collector.CreateOrUpdate(a.metric); err != nil {
		a.t.Errorf("scraping: %v", err)
	}
}

func TestTheLargestStatFitsWhatTheAutoscalerReads(t *testing.T) {
	name := strings.Repeat("p", longestName)
	container := newHolder(t)
	a := startAutoscaler(t, container.port, "SERVING_POD="+name)
	awaitResponses := send(t, a.gate, 1, 1)
	<-container.began
	<-container.began
	// For one second, the message also contains the two rates of arrivals. The test may
	// miss this second, so it waits until the message lacks them. Below it adds the size
	// of these two fields, which is 9 bytes each (a tag and a float64).
	a.fullWindow()
	stat, size := a.message()
	if want := (metrics.Stat{
		PodName: name, AverageConcurrentRequests: 2, AverageProxiedConcurrentRequests: 1, ProcessUptime: stat.ProcessUptime,
	}); stat != want {
		t.Errorf("got %v, want %v", &stat, &want)
	}
	if total := size + 2*9; total > statLimit {
		t.Errorf("%d bytes, %d with both rates; the client reads %d", size, total, statLimit)
	}
	container.release()
	awaitResponses()
}

func TestTheAutoscalersClientIsServedWhileTheGateDrains(t *testing.T) {
	container := newHolder(t)
	a := startAutoscaler(t, container.port, "DRAIN_QUIET_SECONDS=60")
	awaitResponses := send(t, a.gate, 1, 0)
	<-container.began
	a.gate.drain()
	a.fullWindow()
	if stat, err := a.Scrape(stableSpan); err != nil || !within(stat.AverageConcurrentRequests, 1) || !within(stat.AverageProxiedConcurrentRequests, 1) {
		t.Errorf("the scraper reads %v, %v", &stat, err)
	}
	container.release()
	awaitResponses()
}
