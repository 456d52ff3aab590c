package render

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// A schema is the checked part of an OpenAPI schema.
type schema struct {
	Type        string             `json:"type"`
	Properties  map[string]*schema `json:"properties"`
	Items       *schema            `json:"items"`
	Required    []string           `json:"required"`
	Enum        []any              `json:"enum"`
	IntOrString bool               `json:"x-kubernetes-int-or-string"`
}

func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		t.Fatalf("go mod download %s: %v\n%s", module, err, out)
	}
	var moduleInfo struct{ Dir string }
	if err := json.Unmarshal(out, &moduleInfo); err != nil {
		t.Fatal(err)
	}
	return moduleInfo.Dir
}

// definition reads a custom resource definition from a module.
func definition(t *testing.T, module, file, version string) *schema {
	t.Helper()
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPIV3Schema *schema `json:"openAPIV3Schema"`
				}
			}
		}
	}
	text, err := json.Marshal(readYAML(t, filepath.Join(moduleDir(t, module), file)))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	for _, v := range crd.Spec.Versions {
		if v.Name == version {
			s := v.Schema.OpenAPIV3Schema
			s.Properties["metadata"] = &schema{Type: "object"} // any metadata is allowed
			return s
		}
	}
	t.Fatalf("%s has no version %s", file, version)
	return nil
}

// problems returns the paths of unknown fields, missing fields and wrong types.
func (s *schema) problems(path string, value any) (all []string) {
	say := func(format string, more ...any) { all = append(all, path+": "+fmt.Sprintf(format, more...)) }
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, value) {
		say("%v is not one of %v", value, s.Enum)
	}
	kind := ""
	switch value := value.(type) {
	case map[string]any:
		kind = "object"
		for _, key := range s.Required {
			if value[key] == nil {
				say("%s is missing", key)
			}
		}
		for key, below := range value {
			switch {
			case s.Properties == nil: // any field is allowed
			case s.Properties[key] == nil:
				say("unknown field %s", key)
			default:
				all = append(all, s.Properties[key].problems(path+"."+key, below)...)
			}
		}
	case []any:
		kind = "array"
		for i, below := range value {
			if s.Items != nil {
				all = append(all, s.Items.problems(fmt.Sprintf("%s[%d]", path, i), below)...)
			}
		}
	case string:
		kind = "string"
	case bool:
		kind = "boolean"
	case int64, float64:
		kind = "integer"
	}
	if s.Type != "" && kind != s.Type && !(s.Type == "number" && kind == "integer") && !s.IntOrString {
		say("%v is not of type %s", value, s.Type)
	}
	return all
}

func TestScaledObjectsFitKEDAsDefinition(t *testing.T) {
	s := definition(t, "github.com/kedacore/keda/v2@v2.20.2", "config/crd/bases/keda.sh_scaledobjects.yaml", "v1alpha1")
	for name, all := range map[string][]object{
		"overlay": kustomize(t, "overlays/keda"),
		"chart":   chart(t, `{autoscaling: {kind: keda}}`),
	} {
		o := find(t, all, "ScaledObject")
		for _, p := range s.problems("", o.Object) {
			t.Errorf("%s: %s", name, p)
		}
		spec := o.Object["spec"].(map[string]any)
		spec["pollInterval"], spec["minReplicaCount"] = 15, "2"
		delete(spec, "scaleTargetRef")
		if p := s.problems("", o.Object); len(p) != 3 {
			t.Errorf("three mistakes are reported as %q", p)
		}
	}
}

func TestTheKnativeServiceFitsItsDefinition(t *testing.T) {
	s := definition(t, servingModule, "config/core/300-resources/service.yaml", "v1")
	for _, p := range s.problems("", readYAML(t, configDir+"knative/service.yaml")) {
		t.Error(p)
	}
	if s.Properties["spec"].Properties["template"].Properties["spec"].Properties["containerConcurrency"] == nil {
		t.Error("the definition does not describe revisions")
	}
}
