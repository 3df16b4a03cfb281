package schematest

import (
	"strings"
	"testing"
)

// A checker holds all schemas.
type checker struct {
	core, batch, policy schemas
	jobSet              *definition
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	return &checker{readSchemas(t, "api__v1_openapi.json"), readSchemas(t, "apis__batch__v1_openapi.json"), readSchemas(t, "apis__policy__v1_openapi.json"), jobSetDefinition(t)}
}

func (c *checker) check(o object) []string {
	var s schemas
	group, version, ok := strings.Cut(o["apiVersion"].(string), "/")
	if !ok {
		group, version = "", group
	}
	switch group {
	case "":
		s = c.core
	case "batch":
		s = c.batch
	case "policy":
		s = c.policy
	case "jobset.x-k8s.io":
		return c.jobSet.check(o)
	}
	schema := s.of(group, version, o.kind())
	if schema == nil {
		return []string{"there is no kind " + o.kind() + " in " + group + "/" + version}
	}
	return s.check(o.kind(), schema, map[string]any(o))
}

func TestManifestsFollowThePublishedSchemas(t *testing.T) {
	c := newChecker(t)
	for _, file := range golden(t) {
		for _, o := range manifests(t, file) {
			for _, err := range c.check(o) {
				t.Errorf("%s: %s %s: %s", file, o.kind(), o.name(), err)
			}
		}
	}
}

// The schemas would see an error: each of these changes makes one.
func TestSchemasRefuse(t *testing.T) {
	c := newChecker(t)
	for _, tc := range []struct {
		file, kind, name string

		// path is the field's, with numbers for elements.
		path string

		// value is nil to remove the field.
		value any

		want string
	}{
		{"plain.yaml", "Job", "paragon-workers", "spec.completionsMode", "Indexed", "unknown field completionsMode"},
		{"plain.yaml", "Job", "paragon-workers", "spec.parallelism", "2", "spec.parallelism: got string 2, want integer"},
		{"plain.yaml", "Job", "paragon-workers", "spec.template", nil, "field template is missing"},
		{"plain.yaml", "Job", "paragon-workers", "spec.template.spec.containers", nil, "field containers is missing"},
		{"plain.yaml", "Job", "paragon-workers", "spec.template.spec.containers.0.name", nil, "field name is missing"},
		{"plain.yaml", "Job", "paragon-workers", "spec.template.spec.containers.0.args", "agent", "want array"},
		{"plain.yaml", "Job", "paragon-workers", "spec.template.spec.containers.0.securityContext.readOnlyRootFileSystem", true, "unknown field readOnlyRootFileSystem"},
		{"plain.yaml", "Job", "paragon-workers", "spec.podFailurePolicy.rules.0.action", nil, "field action is missing"},
		{"plain.yaml", "Job", "paragon-workers", "spec.podFailurePolicy.rules.1.onExitCodes.operator", nil, "field operator is missing"},
		{"plain.yaml", "Service", "paragon", "spec.publishNotReady", true, "unknown field publishNotReady"},
		{"plain.yaml", "Service", "paragon", "spec.ports.0.port", nil, "field port is missing"},
		{"plain.yaml", "Secret", "paragon-secret", "stringData.secret", 7, "want string"},
		{"plain.yaml", "PodDisruptionBudget", "paragon-workers", "spec.minAvailable", true, "none of what is allowed"},
		{"plain.yaml", "PodDisruptionBudget", "paragon-workers", "spec.min", 1, "unknown field min"},
		{"plain.yaml", "Job", "paragon-workers", "kind", "Jobs", "there is no kind Jobs in batch/v1"},

		{"jobset.yaml", "JobSet", "resnet", "spec.replicatedJobs.0.count", 1, "unknown field spec.replicatedJobs[0].count"},
		{"jobset.yaml", "JobSet", "resnet", "spec.replicatedJobs.0.replicas", "1", "must be of type integer"},
		{"jobset.yaml", "JobSet", "resnet", "spec.replicatedJobs.0.template", nil, "spec.replicatedJobs[0].template: Required value"},
		{"jobset.yaml", "JobSet", "resnet", "spec.replicatedJobs.1.name", "scheduler", "Duplicate value"},
		{"jobset.yaml", "JobSet", "resnet", "spec.replicatedJobs.2.template.spec.podFailurePolicy.rules.0.action", nil, "action: Required value"},
		{"jobset.yaml", "JobSet", "resnet", "spec.replicatedJobs.2.template.spec.template.spec.containers.0.imageName", "a", "unknown field"},
		{"jobset.yaml", "JobSet", "resnet", "spec.successPolicy.operator", "Most", "Unsupported value"},
		{"jobset.yaml", "JobSet", "resnet", "spec.startupPolicy", map[string]any{"startupPolicyOrder": "Backwards"}, "Unsupported value"},
	} {
		o := find(t, manifests(t, tc.file), tc.kind, tc.name)
		set(t, map[string]any(o), tc.path, tc.value)
		if errs := strings.Join(c.check(o), "; "); !strings.Contains(errs, tc.want) {
			t.Errorf("%s %s with %s = %v: got errors %q, want %q", tc.kind, tc.name, tc.path, tc.value, errs, tc.want)
		}
	}
}

// JobSet's definition has a rule in CEL: that two fields exclude each other.
func TestRulesOfJobSetRefuse(t *testing.T) {
	o := find(t, manifests(t, "jobset.yaml"), "JobSet", "resnet")
	set(t, o, "spec.startupPolicy", map[string]any{"startupPolicyOrder": "InOrder"})
	d := jobSetDefinition(t)
	if errs := d.check(o); len(errs) > 0 {
		t.Fatalf("one of the two fields: %q", errs)
	}
	set(t, o, "spec.replicatedJobs.1.dependsOn", []any{map[string]any{"name": "scheduler", "status": "Ready"}})
	if errs := strings.Join(d.check(o), "; "); !strings.Contains(errs, "StartupPolicy and DependsOn APIs are mutually exclusive") {
		t.Errorf("both fields: got errors %q", errs)
	}
}

// set changes a field; nil removes it.
func set(t *testing.T, o map[string]any, path string, value any) {
	t.Helper()
	name, rest, more := strings.Cut(path, ".")
	if !more {
		if value == nil {
			if _, ok := o[name]; !ok {
				t.Fatalf("there is no field %s to remove", name)
			}
			delete(o, name)
		} else {
			o[name] = value
		}
		return
	}
	next := o[name]
	if list, ok := next.([]any); ok {
		index, below, more := strings.Cut(rest, ".")
		i := int(index[0] - '0')
		if !more {
			list[i] = value
			return
		}
		next, rest = list[i], below
	}
	fields, ok := next.(map[string]any)
	if !ok {
		t.Fatalf("%s is no object", name)
	}
	set(t, fields, rest, value)
}
