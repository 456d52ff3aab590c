package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

var ingressResource = schema.GroupVersionResource{Group: "networking.internal.knative.dev", Version: "v1alpha1", Resource: "ingresses"}

// newIngressCommand returns the command of an ingress. The ingress accepts HTTP/1 and
// HTTP/2 without TLS, and selects the Service for a request by Knative's Ingress
// resources. It listens on two addresses: one is for clients outside the cluster, the
// other for clients in the cluster.
func newIngressCommand() *cobra.Command {
	var kubeconfig, public, local string
	command := &cobra.Command{Use: "ingress", RunE: func(*cobra.Command, []string) error {
		config, err := clientConfig(kubeconfig)
		if err != nil {
			return err
		}
		services, err := watchServices(config)
		if err != nil {
			return err
		}
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return err
		}
		in := &ingress{services: services, client: client, known: map[string]spec{}, http1: &http.Transport{}, http2: &http.Transport{Protocols: new(http.Protocols)}}
		in.http2.Protocols.SetUnencryptedHTTP2(true)
		for _, t := range []*http.Transport{in.http1, in.http2} {
			t.DialContext, t.MaxIdleConnsPerHost, t.DisableCompression = dial, 256, true
		}
		if err := in.watch(); err != nil {
			return err
		}
		failed := make(chan error, 2)
		for address, table := range map[string]*atomic.Pointer[routes]{public: &in.public, local: &in.local} {
			server := &http.Server{Addr: address, Handler: in.handler(table), Protocols: new(http.Protocols)}
			server.Protocols.SetHTTP1(true)
			server.Protocols.SetUnencryptedHTTP2(true)
			go func() { failed <- server.ListenAndServe() }()
		}
		return <-failed
	}}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig for the API server")
	command.Flags().StringVar(&public, "public", "", "address and port for the outside")
	command.Flags().StringVar(&local, "local", "", "address and port for the cluster")
	return command
}

// dial retries for some seconds, until kube-proxy has programmed a new service.
func dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	for range 40 {
		if conn, err = (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, address); err == nil || ctx.Err() != nil {
			return conn, err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, err
}

// The used fields of an Ingress resource.
type (
	spec struct {
		Rules []struct {
			Hosts      []string
			Visibility string
			HTTP       struct{ Paths []path }
		}
	}
	path struct {
		Path          string
		Headers       map[string]struct{ Exact string }
		AppendHeaders map[string]string
		RewriteHost   string
		Splits        []split
	}
	split struct {
		ServiceNamespace, ServiceName string
		ServicePort                   any // number or name
		Percent                       int
		AppendHeaders                 map[string]string
	}
	// routes are the paths, by host.
	routes map[string][]path
)

type ingress struct {
	services      listers.ServiceLister
	client        dynamic.Interface
	http1, http2  *http.Transport
	public, local atomic.Pointer[routes]
	nextEndpoint  atomic.Uint64

	mu    sync.Mutex
	known map[string]spec // specs by namespace and name
}

func (in *ingress) watch() error {
	informer := dynamicinformer.NewDynamicSharedInformerFactory(in.client, 0).ForResource(ingressResource).Informer()
	update := func(object any) {
		u := object.(*unstructured.Unstructured)
		var resource struct{ Spec spec }
		document, err := u.MarshalJSON()
		if err == nil {
			err = json.Unmarshal(document, &resource)
		}
		if err != nil {
			log.Print(u.GetName(), ": ", err)
			return
		}
		in.change(func() { in.known[u.GetNamespace()+"/"+u.GetName()] = resource.Spec })
		if err := in.report(u); err != nil {
			log.Print(u.GetName(), ": ", err)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    update,
		UpdateFunc: func(_, object any) { update(object) },
		DeleteFunc: func(object any) {
			key, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
			in.change(func() { delete(in.known, key) })
		},
	})
	in.change(func() {})
	go informer.Run(nil)
	return err
}

// change calls the given function, which changes the set of known Ingress resources. Then
// it computes all routes again from these resources. It holds the lock during both steps.
func (in *ingress) change(update func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	update()
	public, local := routes{}, routes{}
	for _, s := range in.known {
		for _, rule := range s.Rules {
			for _, host := range rule.Hosts {
				local[host] = append(local[host], rule.HTTP.Paths...)
				if rule.Visibility != "ClusterLocal" {
					public[host] = append(public[host], rule.HTTP.Paths...)
				}
			}
		}
	}
	in.public.Store(&public)
	in.local.Store(&local)
}

// report writes to the resource's status that its routes are in use.
func (in *ingress) report(u *unstructured.Unstructured) error {
	if seen, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration"); seen == u.GetGeneration() {
		return nil
	}
	var conditions []any
	for _, kind := range []string{"LoadBalancerReady", "NetworkConfigured", "Ready"} {
		conditions = append(conditions, map[string]any{"type": kind, "status": "True", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)})
	}
	balancer := map[string]any{"ingress": []any{map[string]any{"domainInternal": "ingress.knative-serving.svc.cluster.local"}}}
	out := u.DeepCopy()
	out.Object["status"] = map[string]any{"observedGeneration": u.GetGeneration(), "conditions": conditions,
		"publicLoadBalancer": balancer, "privateLoadBalancer": balancer}
	_, err := in.client.Resource(ingressResource).Namespace(u.GetNamespace()).UpdateStatus(context.Background(), out, metav1.UpdateOptions{})
	return err
}

func (in *ingress) handler(table *atomic.Pointer[routes]) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Without this call, net/http stops reading the request body once the response
		// has begun.
		http.NewResponseController(w).EnableFullDuplex()
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		to := choose((*table.Load())[host], r)
		if to == nil || len(to.Splits) == 0 {
			http.Error(w, "ingress: no route for "+host, http.StatusNotFound)
			return
		}
		s := to.Splits[0]
		for n, i := int(in.nextEndpoint.Add(1)%100), 0; i < len(to.Splits)-1 && n >= to.Splits[i].Percent; i++ {
			n -= to.Splits[i].Percent
			s = to.Splits[i+1]
		}
		in.forward(w, r, to, s)
	})
}

// choose returns the path that fits the request best, or nil if none matches. Of two
// matching paths, the one that requires more header fields is better. If they require
// equally many, the longer one is better.
func choose(paths []path, r *http.Request) (best *path) {
	for i := range paths {
		p := &paths[i]
		fits := strings.HasPrefix(r.URL.Path, p.Path)
		for name, value := range p.Headers {
			fits = fits && r.Header.Get(name) == value.Exact
		}
		if fits && (best == nil || len(p.Headers) > len(best.Headers) || len(p.Headers) == len(best.Headers) && len(p.Path) > len(best.Path)) {
			best = p
		}
	}
	return best
}

func (in *ingress) forward(w http.ResponseWriter, r *http.Request, target *path, s split) {
	service, err := in.services.Services(s.ServiceNamespace).Get(s.ServiceName)
	if err != nil {
		http.Error(w, "ingress: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	port, transport := fmt.Sprint(s.ServicePort), in.http1
	for _, p := range service.Spec.Ports {
		if port == p.Name || port == fmt.Sprint(p.Port) {
			port = fmt.Sprint(p.Port)
			if strings.HasPrefix(p.Name, "http2") || strings.HasPrefix(p.Name, "h2c") {
				transport = in.http2
			}
			break
		}
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetXForwarded()
			p.SetURL(&url.URL{Scheme: "http", Host: net.JoinHostPort(service.Spec.ClusterIP, port)})
			p.Out.Host = p.In.Host
			if target.RewriteHost != "" {
				p.Out.Header.Set("K-Original-Host", p.In.Host)
				p.Out.Host = target.RewriteHost
			}
			for _, fields := range []map[string]string{target.AppendHeaders, s.AppendHeaders} {
				for name, value := range fields {
					p.Out.Header.Set(name, value)
				}
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			log.Print("forwarding ", r.Host, " ", r.URL, ": ", err)
			http.Error(w, "ingress: "+err.Error(), http.StatusBadGateway)
		},
	}
	proxy.ServeHTTP(w, r)
}
