package schematest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	_ "sigs.k8s.io/jobset/api/jobset/v1alpha2" // of the module whose definition is read
)

// A definition is a CustomResourceDefinition, ready to check objects as the API server does.
type definition struct {
	schema    *structural.Structural
	validator validation.SchemaValidator
	rules     *cel.Validator
}

// jobSetDefinition is that of the module sigs.k8s.io/jobset.
func jobSetDefinition(t *testing.T) *definition {
	t.Helper()
	path := filepath.Join(moduleFolder(t, "sigs.k8s.io/jobset"), "config", "components", "crd", "bases", "jobset.x-k8s.io_jobsets.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var fields any
	if err := yaml.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	var crd extensions.CustomResourceDefinition
	if err := json.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	var props apiextensions.JSONSchemaProps
	if err := extensions.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil); err != nil {
		t.Fatal(err)
	}
	d := new(definition)
	if d.schema, err = structural.NewStructural(&props); err != nil {
		t.Fatal(err)
	}
	if d.validator, _, err = validation.NewSchemaValidator(&props); err != nil {
		t.Fatal(err)
	}
	if d.rules = cel.NewValidator(d.schema, true, celconfig.PerCallLimit); d.rules == nil {
		t.Fatal("the definition has no rules")
	}
	return d
}

// check returns what is wrong with an object: unknown fields, what the schema refuses, and what its
// rules refuse.
func (d *definition) check(o object) (errs []string) {
	fields := copied(o)
	for _, path := range pruning.PruneWithOptions(fields, d.schema, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		errs = append(errs, "unknown field "+path)
	}
	for _, err := range validation.ValidateCustomResource(nil, fields, d.validator) {
		errs = append(errs, err.Error())
	}
	for _, err := range listtype.ValidateListSetsAndMaps(nil, d.schema, fields) {
		errs = append(errs, err.Error())
	}
	bad, _ := d.rules.Validate(context.Background(), nil, d.schema, fields, nil, celconfig.RuntimeCELCostBudget)
	for _, err := range bad {
		errs = append(errs, err.Error())
	}
	return errs
}

// copied is the object with numbers as the API server reads them.
func copied(o object) map[string]any {
	return deep(map[string]any(o)).(map[string]any)
}

func deep(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = deep(e)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = deep(e)
		}
		return l
	case int:
		return int64(v)
	}
	return v
}
