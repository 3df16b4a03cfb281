package schematest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A schema is one of OpenAPI v3, as far as Kubernetes' published files use it.
type schema struct {
	Ref                  string             `json:"$ref"`
	AllOf                []*schema          `json:"allOf"`
	OneOf                []*schema          `json:"oneOf"`
	Type                 string             `json:"type"`
	Format               string             `json:"format"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties *schema            `json:"additionalProperties"`
	Items                *schema            `json:"items"`
	Required             []string           `json:"required"`
	Enum                 []any              `json:"enum"`

	GroupVersionKinds []struct{ Group, Version, Kind string } `json:"x-kubernetes-group-version-kind"`
}

// schemas are those of a file of api/openapi-spec/v3.
type schemas map[string]*schema

func readSchemas(t *testing.T, file string) schemas {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleFolder(t, "k8s.io/kubernetes"), "api", "openapi-spec", "v3", file))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Components struct{ Schemas schemas } }
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Components.Schemas
}

// of is the schema of a kind.
func (s schemas) of(group, version, kind string) *schema {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		for _, g := range s[name].GroupVersionKinds {
			if g.Group == group && g.Version == version && g.Kind == kind {
				return s[name]
			}
		}
	}
	return nil
}

// check returns what is wrong with a value. A field that the schema does not have is an error, as
// with kubectl --validate=strict.
func (s schemas) check(at string, want *schema, value any) (errs []string) {
	if want.Ref != "" {
		name := want.Ref[strings.LastIndex(want.Ref, "/")+1:]
		if s[name] == nil {
			return []string{fmt.Sprintf("%s: the schemas lack %s", at, name)}
		}
		return s.check(at, s[name], value)
	}
	for _, all := range want.AllOf {
		errs = append(errs, s.check(at, all, value)...)
	}
	if len(want.OneOf) > 0 {
		fits := slices.ContainsFunc(want.OneOf, func(one *schema) bool { return len(s.check(at, one, value)) == 0 })
		if !fits {
			errs = append(errs, fmt.Sprintf("%s: %v is none of what is allowed", at, value))
		}
	}
	if len(want.Enum) > 0 && !slices.Contains(want.Enum, value) {
		errs = append(errs, fmt.Sprintf("%s: %v, want one of %v", at, value, want.Enum))
	}
	wrong := func() []string {
		return append(errs, fmt.Sprintf("%s: got %T %v, want %s", at, value, value, want.Type))
	}
	switch want.Type {
	case "object":
		fields, ok := value.(map[string]any)
		if !ok {
			return wrong()
		}
		return append(errs, s.checkFields(at, want, fields)...)
	case "array":
		items, ok := value.([]any)
		if !ok {
			return wrong()
		}
		for i, item := range items {
			errs = append(errs, s.check(fmt.Sprintf("%s[%d]", at, i), want.Items, item)...)
		}
	case "string":
		if _, ok := value.(string); !ok {
			return wrong()
		}
	case "integer":
		if _, ok := value.(int); !ok {
			return wrong()
		}
	case "number":
		switch value.(type) {
		case int, float64:
		default:
			return wrong()
		}
	case "boolean":
		if _, ok := value.(bool); !ok {
			return wrong()
		}
	}
	return errs
}

func (s schemas) checkFields(at string, want *schema, fields map[string]any) (errs []string) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch {
		case want.Properties[name] != nil:
			errs = append(errs, s.check(at+"."+name, want.Properties[name], fields[name])...)
		case want.AdditionalProperties != nil:
			errs = append(errs, s.check(at+"."+name, want.AdditionalProperties, fields[name])...)
		default:
			errs = append(errs, fmt.Sprintf("%s: unknown field %s", at, name))
		}
	}
	for _, name := range want.Required {
		if _, ok := fields[name]; !ok {
			errs = append(errs, fmt.Sprintf("%s: field %s is missing", at, name))
		}
	}
	return errs
}
