package render

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func TestTheKustomizationInTheDocumentationIsValid(t *testing.T) {
	_, rest, found := strings.Cut(read(t, "../../docs/kubernetes.md"), "cat > bin/shop/kustomization.yaml <<'EOF'\n")
	text, _, closed := strings.Cut(rest, "\nEOF\n")
	if !found || !closed {
		t.Fatal("the page has no kustomization")
	}
	text = strings.ReplaceAll(text, "newName: registry.example/queuegate-demo # ", "newName: example.com/shop # ")
	// The kustomization contains relative paths. The page puts it into bin/shop, so the
	// test puts it into another directory in bin, where these paths are valid, too.
	bin := filepath.Join("..", "..", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(bin, "render-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := rendered.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	all := objects(t, asYAML)
	gate := gateOf(t, podOf(t, all))
	values := map[string]string{}
	for _, v := range gate.Env {
		values[v.Name] = v.Value
	}
	if values["CONTAINER_CONCURRENCY"] != "5" || values["QUEUE_CAPACITY"] != "100" || values["USER_PORT"] != "8080" {
		t.Errorf("environment %v", values)
	}
	d := find(t, all, "Deployment").typed.(*appsv1.Deployment)
	if d.Namespace != "shop" || d.Spec.Template.Spec.Containers[0].Image != "example.com/shop:dev" || gate.Image != "registry.example/queuegate:dev" {
		t.Errorf("namespace %s, images %s and %s", d.Namespace, gate.Image, d.Spec.Template.Spec.Containers[0].Image)
	}
}
