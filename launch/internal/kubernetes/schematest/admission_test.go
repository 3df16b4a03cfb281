package schematest

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	podsecurity "k8s.io/pod-security-admission/api"
	security "k8s.io/pod-security-admission/policy"
)

// codecs read manifests as the API server does with fieldValidation=Strict: unknown and repeated
// fields are errors.
var codecs = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict)

// admitted is the object as the API server stores it: defaults set, validated.
func admitted(o object) (runtime.Object, []string) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, []string{err.Error()}
	}
	obj, _, err := codecs.UniversalDecoder(legacyscheme.Scheme.PrioritizedVersionsAllGroups()...).Decode(bytes.TrimSpace(text), nil, nil)
	if err != nil {
		return nil, []string{err.Error()}
	}
	internal, err := legacyscheme.Scheme.ConvertToVersion(obj, runtime.InternalGroupVersioner)
	if err != nil {
		return nil, []string{err.Error()}
	}
	m := internal.(meta.Object)
	if m.GetNamespace() == "" {
		m.SetNamespace("default")
	}
	m.SetUID(types.UID("uid-" + m.GetName()))
	var errs []string
	switch v := internal.(type) {
	case *batch.Job:
		job.Strategy.PrepareForCreate(context.Background(), v)
		for _, err := range job.Strategy.Validate(context.Background(), v) {
			errs = append(errs, err.Error())
		}
		errs = append(errs, job.Strategy.WarningsOnCreate(context.Background(), v)...)
	case *core.Secret:
		for _, err := range corevalidation.ValidateSecret(v) {
			errs = append(errs, err.Error())
		}
	case *core.Service:
		// The API server allocates, before it validates.
		v.Spec.ClusterIPs = []string{v.Spec.ClusterIP}
		v.Spec.IPFamilies = []core.IPFamily{core.IPv4Protocol}
		v.Spec.IPFamilyPolicy = new(core.IPFamilyPolicySingleStack)
		for _, err := range corevalidation.ValidateServiceCreate(v) {
			errs = append(errs, err.Error())
		}
	case *policy.PodDisruptionBudget:
		for _, err := range policyvalidation.ValidatePodDisruptionBudget(v, policyvalidation.PodDisruptionBudgetValidationOptions{}) {
			errs = append(errs, err.Error())
		}
	default:
		errs = append(errs, "unknown kind")
	}
	return internal, errs
}

// jobOf is the Job as its controller sees it.
func jobOf(t *testing.T, o object) *batchv1.Job {
	t.Helper()
	internal, errs := admitted(o)
	if len(errs) > 0 {
		t.Fatalf("%s %s: %s", o.kind(), o.name(), strings.Join(errs, "; "))
	}
	j := new(batchv1.Job)
	if err := legacyscheme.Scheme.Convert(internal, j, nil); err != nil {
		t.Fatal(err)
	}
	return j
}

// plainJobs are the Jobs that the controller of a JobSet makes, as far as it is about their
// specification.
func plainJobs(o object) (jobs []object) {
	spec := o["spec"].(map[string]any)
	for _, r := range spec["replicatedJobs"].([]any) {
		replicated := r.(map[string]any)
		template := replicated["template"].(map[string]any)
		jobs = append(jobs, object{"apiVersion": "batch/v1", "kind": "Job", "spec": template["spec"], "metadata": map[string]any{
			"name": o.name() + "-" + replicated["name"].(string) + "-0", "namespace": "vision", "labels": template["metadata"].(map[string]any)["labels"],
		}})
	}
	return jobs
}

// all are the objects that the API server stores in the end.
func all(t *testing.T, file string) (objects []object) {
	t.Helper()
	for _, o := range manifests(t, file) {
		if o.kind() == "JobSet" {
			objects = append(objects, plainJobs(o)...)
		} else {
			objects = append(objects, o)
		}
	}
	return objects
}

func TestAPIServerAdmitsTheManifests(t *testing.T) {
	for _, file := range golden(t) {
		for _, o := range all(t, file) {
			if _, errs := admitted(o); len(errs) > 0 {
				t.Errorf("%s: %s %s: %s", file, o.kind(), o.name(), strings.Join(errs, "; "))
			}
		}
	}
}

func TestAPIServerRefuses(t *testing.T) {
	for _, tc := range []struct {
		kind, name, path string
		value            any
		want             string
	}{
		{"Job", "paragon-workers", "spec.completionMod", "Indexed", "unknown field"},
		{"Job", "paragon-workers", "spec.template.spec.restartPolicy", "OnFailure", `only "Never" is supported when podFailurePolicy is specified`},
		{"Job", "paragon-workers", "spec.podReplacementPolicy", "TerminatingOrFailed", "podReplacementPolicy"},
		{"Job", "paragon-workers", "spec.completionMode", "NonIndexed", "backoffLimitPerIndex"},
		{"Job", "paragon-workers", "spec.podFailurePolicy.rules.1.onExitCodes.containerName", "other", "onExitCodes.containerName"},
		{"Job", "paragon-workers", "spec.podFailurePolicy.rules.1.onExitCodes.values", []any{2, 2}, "Duplicate value"},
		{"Job", "paragon-workers", "spec.podFailurePolicy.rules.1.action", "Restart", "Unsupported value"},
		{"Job", "paragon-workers", "spec.template.spec.containers.0.volumeMounts.0.name", "temp", "Not found"},
		{"Job", "paragon-workers", "metadata.name", strings.Repeat("w", 62), "must be no more than 63"},
		{"Service", "paragon", "metadata.name", "1paragon_", "metadata.name"},
		{"PodDisruptionBudget", "paragon-workers", "spec.maxUnavailable", 1, "cannot be both set"},
	} {
		o := find(t, manifests(t, "plain.yaml"), tc.kind, tc.name)
		set(t, o, tc.path, tc.value)
		if _, errs := admitted(o); !strings.Contains(strings.Join(errs, "; "), tc.want) {
			t.Errorf("%s with %s = %v: got errors %q, want %q", tc.kind, tc.path, tc.value, errs, tc.want)
		}
	}
}

// Pods meet the Pod Security Standard "restricted", by the code of the admission that enforces it.
func TestPodsAreRestricted(t *testing.T) {
	evaluator, err := security.NewEvaluator(security.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	evaluate := func(o object) string {
		j := jobOf(t, o)
		r := security.AggregateCheckResults(evaluator.EvaluatePod(restricted, &j.Spec.Template.ObjectMeta, &j.Spec.Template.Spec))
		if r.Allowed {
			return ""
		}
		return r.ForbiddenDetail()
	}
	pods := 0
	for _, file := range golden(t) {
		for _, o := range all(t, file) {
			if o.kind() == "Job" {
				pods++
				if why := evaluate(o); why != "" {
					t.Errorf("%s: %s: %s", file, o.name(), why)
				}
			}
		}
	}
	if pods != 9 {
		t.Errorf("%d kinds of pods were evaluated, want 9", pods)
	}
	for path, value := range map[string]any{
		"spec.template.spec.securityContext.seccompProfile":                        nil,
		"spec.template.spec.containers.0.securityContext.allowPrivilegeEscalation": true,
		"spec.template.spec.containers.0.securityContext.capabilities.drop":        []any{"NET_RAW"},
		"spec.template.spec.containers.0.securityContext.runAsNonRoot":             false,
		"spec.template.spec.hostNetwork":                                           true,
		"spec.template.spec.volumes.0":                                             map[string]any{"name": "tmp", "hostPath": map[string]any{"path": "/tmp"}},
	} {
		o := find(t, manifests(t, "plain.yaml"), "Job", "paragon-workers")
		set(t, o, path, value)
		if why := evaluate(o); why == "" {
			t.Errorf("a pod with %s = %v is restricted", path, value)
		}
	}
}
