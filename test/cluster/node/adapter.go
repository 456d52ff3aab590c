package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	metrics "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
)

// newAdapterCommand returns the command of a metrics adapter for
// HorizontalPodAutoscalers. This adapter reads the metrics pages of the pods itself, so
// it does not need Prometheus.
func newAdapterCommand() *cobra.Command {
	var kubeconfig, listen string
	var port int
	command := &cobra.Command{Use: "adapter", RunE: func(*cobra.Command, []string) error {
		config, err := clientConfig(kubeconfig)
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		certificate, err := selfSigned()
		if err != nil {
			return err
		}
		a := &adapter{client: client, port: port, pages: &http.Client{Timeout: 2 * time.Second}}
		mux := http.NewServeMux()
		root := "/apis/" + metrics.SchemeGroupVersion.String()
		mux.HandleFunc("GET "+root, a.discovery)
		mux.HandleFunc("GET "+root+"/namespaces/{namespace}/pods/{pod}/{metric}", a.values)
		server := &http.Server{Addr: listen, Handler: mux, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
		return server.ListenAndServeTLS("", "")
	}}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig for the API server")
	command.Flags().StringVar(&listen, "listen", "", "address and port")
	command.Flags().IntVar(&port, "port", 9091, "port of the pods' metrics page")
	return command
}

type adapter struct {
	client kubernetes.Interface
	port   int
	pages  *http.Client
}

// discovery responds with a wildcard instead of a list of metrics. The adapter has no
// such list, because only the metrics pages of the pods show which metrics exist.
func (a *adapter) discovery(w http.ResponseWriter, _ *http.Request) {
	respond(w, metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: metrics.SchemeGroupVersion.String(),
		APIResources: []metav1.APIResource{{Name: "pods/*", Namespaced: true, Kind: "MetricValueList", Verbs: metav1.Verbs{"get"}}},
	})
}

// values returns the value of a metric for each running pod that the selector matches.
func (a *adapter) values(w http.ResponseWriter, r *http.Request) {
	pods, err := a.client.CoreV1().Pods(r.PathValue("namespace")).List(r.Context(), metav1.ListOptions{LabelSelector: r.FormValue("labelSelector")})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	metric := r.PathValue("metric")
	list := metrics.MetricValueList{TypeMeta: metav1.TypeMeta{Kind: "MetricValueList", APIVersion: metrics.SchemeGroupVersion.String()}}
	for _, pod := range pods.Items {
		if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
			continue
		}
		value, err := a.sum(pod.Status.PodIP, metric)
		if err != nil {
			log.Print(pod.Name, ": ", err)
			continue
		}
		list.Items = append(list.Items, metrics.MetricValue{
			DescribedObject: corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name},
			Metric:          metrics.MetricIdentifier{Name: metric}, Timestamp: metav1.Now(),
			Value: *resource.NewMilliQuantity(int64(value*1000), resource.DecimalSI),
		})
	}
	respond(w, list)
}

// sum returns the sum of a metric's series on a pod's page.
func (a *adapter) sum(address, metric string) (total float64, err error) {
	response, err := a.pages.Get(fmt.Sprintf("http://%s:%d/metrics", address, a.port))
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	found := false
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		line := lines.Text()
		if end := strings.IndexAny(line, "{ "); end < 0 || line[:end] != metric {
			continue
		}
		f, err := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
		if err != nil {
			return 0, err
		}
		total, found = total+f, true
	}
	if lines.Err() == nil && !found {
		return 0, fmt.Errorf("no metric %s", metric)
	}
	return total, lines.Err()
}

func respond(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(object)
}

func selfSigned() (certificate tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	bytes, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{bytes}, PrivateKey: key}, err
}
