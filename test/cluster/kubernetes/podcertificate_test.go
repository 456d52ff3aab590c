package kubernetes

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"os/exec"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/queuegate/queuegate/test/cluster"
)

// A signer issues pod certificates, with the pod's service account in a SPIFFE URI.
type signer struct {
	name        string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newSigner(t *testing.T, name string) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{name, certificate, key}
}

func spiffe(namespace, account string) string {
	return fmt.Sprintf("spiffe://cluster.local/ns/%s/sa/%s", namespace, account)
}

// issue returns a certificate for a public key.
func (s *signer) issue(public any, uri string) (*x509.Certificate, error) {
	name, err := url.Parse(uri)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	now := time.Now().Truncate(time.Second)
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: serial, URIs: []*url.URL{name}, DNSNames: []string{"web"},
		NotBefore: now, NotAfter: now.Add(2 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, s.certificate, public, s.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(raw)
}

func toPEM(certificate *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}))
}

func (s *signer) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(s.certificate)
	return p
}

// serve signs the certificate requests of a namespace's pods until ctx is done.
func (s *signer) serve(ctx context.Context, namespace string) error {
	for ctx.Err() == nil {
		if err := s.sign(ctx, namespace); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
	return nil
}

func (s *signer) sign(ctx context.Context, namespace string) error {
	out, err := exec.CommandContext(ctx, "kubectl", "-n", namespace, "get", "podcertificaterequests", "-o", "json").Output()
	if err != nil {
		return fmt.Errorf("listing requests for certificates: %w", err)
	}
	var list certificatesv1beta1.PodCertificateRequestList
	if err := json.Unmarshal(out, &list); err != nil {
		return err
	}
	for _, r := range list.Items {
		if r.Spec.SignerName != s.name || len(r.Status.Conditions) > 0 {
			continue
		}
		request, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
		if err != nil {
			return fmt.Errorf("request %s: %w", r.Name, err)
		}
		certificate, err := s.issue(request.PublicKey, spiffe(r.Namespace, r.Spec.ServiceAccountName))
		if err != nil {
			return err
		}
		at := func(t time.Time) *metav1.Time { m := metav1.NewTime(t); return &m }
		patch, err := json.Marshal(map[string]any{"status": certificatesv1beta1.PodCertificateRequestStatus{
			CertificateChain: toPEM(certificate), NotBefore: at(certificate.NotBefore), NotAfter: at(certificate.NotAfter),
			BeginRefreshAt: at(certificate.NotBefore.Add(time.Hour)),
			Conditions: []metav1.Condition{{Type: certificatesv1beta1.PodCertificateRequestConditionTypeIssued, Status: metav1.ConditionTrue,
				Reason: "Signed", LastTransitionTime: metav1.Now()}},
		}})
		if err != nil {
			return err
		}
		if out, err := exec.CommandContext(ctx, "kubectl", "-n", namespace, "patch", "podcertificaterequest", r.Name,
			"--subresource=status", "--type=merge", "--patch", string(patch)).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}

func TestAPodCertificateServesAndItsTrustBundleAdmitsClients(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	s := newSigner(t, "signer.example/"+namespace)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.serve(ctx, namespace) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	bundle := "signer.example:" + namespace + ":clients"
	document, err := json.Marshal(&certificatesv1beta1.ClusterTrustBundle{
		TypeMeta: metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1beta1", Kind: "ClusterTrustBundle"}, ObjectMeta: metav1.ObjectMeta{Name: bundle},
		Spec: certificatesv1beta1.ClusterTrustBundleSpec{SignerName: s.name, TrustBundle: toPEM(s.certificate)}})
	if err != nil {
		t.Fatal(err)
	}
	cluster.KubectlWith(t, string(document), "apply", "-f", "-")
	t.Cleanup(func() { cluster.Kubectl(t, "delete", "clustertrustbundle", bundle) })

	base(t, one, func(d *appsv1.Deployment) {
		spec := &d.Spec.Template.Spec
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "tls", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{
				{PodCertificate: &corev1.PodCertificateProjection{SignerName: s.name, KeyType: "ECDSAP256", CredentialBundlePath: "credentialbundle.pem"}},
				{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{SignerName: &s.name, LabelSelector: new(metav1.LabelSelector), Path: "clients.pem"}},
			}}}})
		g := gate(spec)
		g.VolumeMounts = append(g.VolumeMounts, corev1.VolumeMount{Name: "tls", MountPath: "/var/run/tls", ReadOnly: true})
		g.Env = append(g.Env, corev1.EnvVar{Name: "CERT_DIR", Value: "/var/run/tls"}, corev1.EnvVar{Name: "TLS_CLIENT_CA", Value: "/var/run/tls/clients.pem"},
			corev1.EnvVar{Name: "TLS_CLIENT_SANS", Value: spiffe(namespace, "frontend")})
	}).apply(t, namespace)
	pod := cluster.Pods(t, namespace)[0]

	get := func(ca *signer, uri string) (*http.Response, error) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := ca.issue(&key.PublicKey, uri)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Timeout: cluster.WaitTimeout, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
			RootCAs: s.pool(), ServerName: "web", Certificates: []tls.Certificate{{Certificate: [][]byte{certificate.Raw}, PrivateKey: key}}}}}
		return client.Get("https://" + pod.Status.PodIP + ":8112/echo")
	}
	response, err := get(s, spiffe(namespace, "frontend"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	leaf := response.TLS.PeerCertificates[0]
	if want := spiffe(namespace, pod.Spec.ServiceAccountName); response.StatusCode != 200 || len(leaf.URIs) != 1 || leaf.URIs[0].String() != want {
		t.Errorf("status %d, certificate of %v, want 200 and %s", response.StatusCode, leaf.URIs, want)
	}
	for name, ca := range map[string]*signer{"a client with a certificate of another CA": newSigner(t, s.name), "a client of another account": s} {
		uri := spiffe(namespace, "frontend")
		if ca == s {
			uri = spiffe(namespace, "other")
		}
		if response, err := get(ca, uri); err == nil {
			response.Body.Close()
			t.Errorf("%s: status %d, want a failed handshake", name, response.StatusCode)
		}
	}
}
