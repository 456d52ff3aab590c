package render

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	syaml "sigs.k8s.io/yaml"
)

const configDir = "../../config/"

// known has all types of the manifests except KEDA's.
var known = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, monitoring.AddToScheme} {
		if err := add(s); err != nil {
			panic("BUG: " + err.Error())
		}
	}
	return s
}()

func kustomize(t *testing.T, dir string) []object {
	t.Helper()
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), configDir+dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := all.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, text)
}

// loaded caches the chart, because the loader logs each symbolic link.
var loaded = sync.OnceValues(func() (*helmchart.Chart, error) { return loader.LoadDir(configDir + "helm/queuegate") })

// helm renders the chart as `helm install web --set ...` does in the namespace default.
func helm(values string) ([]byte, error) {
	chart, err := loaded()
	if err != nil {
		return nil, err
	}
	ownFields := map[string]any{}
	if err := syaml.Unmarshal([]byte(values), &ownFields); err != nil {
		return nil, err
	}
	release := chartutil.ReleaseOptions{Name: "web", Namespace: "default", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, ownFields, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return renderChart(chart, all)
}

func renderChart(chart *helmchart.Chart, values chartutil.Values) ([]byte, error) {
	rendered, err := engine.Render(chart, values)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for name, document := range rendered {
		if strings.HasSuffix(name, ".yaml") {
			text.WriteString("---\n" + document + "\n")
		}
	}
	return text.Bytes(), nil
}

func chart(t *testing.T, values string) []object {
	t.Helper()
	text, err := helm(values)
	if err != nil {
		t.Fatalf("%s: %v", values, err)
	}
	return objects(t, text)
}

// object is a manifest. The field typed has the same manifest, decoded to its Go type. It
// is nil for a ScaledObject of KEDA, because the tests do not know the Go type.
type object struct {
	unstructured.Unstructured
	typed runtime.Object
}

// objects decodes manifests. Unknown and repeated fields are errors.
func objects(t *testing.T, text []byte) (all []object) {
	t.Helper()
	decoder := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
	for r := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var o object
		if err := syaml.UnmarshalStrict(document, &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(o.Object) == 0 {
			continue
		}
		if o.typed, _, err = decoder.Decode(document, nil, nil); err != nil && !runtime.IsNotRegisteredError(err) {
			t.Errorf("%v in\n%s", err, document)
		}
		if o.typed == nil && o.GetKind() != "ScaledObject" {
			t.Errorf("no type for %s %s", o.GetAPIVersion(), o.GetKind())
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b object) int { return cmp.Compare(a.GetKind()+"/"+a.GetName(), b.GetKind()+"/"+b.GetName()) })
	return all
}
