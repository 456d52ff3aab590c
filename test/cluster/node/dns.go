package main

import (
	"errors"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// newDNSCommand returns the command of a name server. This server knows only the names of
// services.
func newDNSCommand() *cobra.Command {
	var kubeconfig, listen, gateway string
	command := &cobra.Command{Use: "dns", RunE: func(*cobra.Command, []string) error {
		config, err := clientConfig(kubeconfig)
		if err != nil {
			return err
		}
		services, err := watchServices(config)
		if err != nil {
			return err
		}
		local, err := netip.ParseAddr(gateway)
		if err != nil {
			return err
		}
		conn, err := net.ListenPacket("udp", listen)
		if err != nil {
			return err
		}
		return (&nameServer{services, local}).serve(conn)
	}}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig for the API server")
	command.Flags().StringVar(&listen, "listen", "", "address and port")
	command.Flags().StringVar(&gateway, "gateway", "", "address of services of type ExternalName: Knative's routes")
	return command
}

func clientConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err == nil {
		config.QPS, config.Burst = 100, 200
	}
	return config, err
}

// watchServices returns an up-to-date lister of services.
func watchServices(config *rest.Config) (listers.ServiceLister, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	services := factory.Core().V1().Services()
	services.Informer()
	factory.Start(nil)
	for kind, synced := range factory.WaitForCacheSync(nil) {
		if !synced {
			return nil, errors.New("no " + kind.String())
		}
	}
	return services.Lister(), nil
}

type nameServer struct {
	services listers.ServiceLister
	gateway  netip.Addr
}

func (n *nameServer) serve(conn net.PacketConn) error {
	buffer := make([]byte, 4096)
	for {
		size, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return err
		}
		var m dnsmessage.Message
		if m.Unpack(buffer[:size]) != nil || len(m.Questions) != 1 {
			continue
		}
		n.fillResponse(&m)
		if response, err := m.Pack(); err == nil {
			conn.WriteTo(response, from)
		}
	}
}

func (n *nameServer) fillResponse(m *dnsmessage.Message) {
	question := m.Questions[0]
	m.Response, m.Authoritative, m.RecursionAvailable, m.Additionals = true, true, true, nil
	address, found := n.lookUp(question.Name.String())
	if !found {
		m.RCode = dnsmessage.RCodeNameError
		return
	}
	if question.Type == dnsmessage.TypeA && address.Is4() {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class, TTL: 1},
			Body:   &dnsmessage.AResource{A: address.As4()},
		}}
	}
}

// lookUp returns the address of SERVICE.NAMESPACE.svc.cluster.local.
func (n *nameServer) lookUp(name string) (address netip.Addr, found bool) {
	name, ok := strings.CutSuffix(strings.ToLower(name), ".svc.cluster.local.")
	service, namespace, two := strings.Cut(name, ".")
	if !ok || !two {
		return address, false
	}
	s, err := n.services.Services(namespace).Get(service)
	if err != nil {
		return address, false
	}
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return n.gateway, true
	}
	address, _ = netip.ParseAddr(s.Spec.ClusterIP) // a headless service has no address
	return address, true
}
