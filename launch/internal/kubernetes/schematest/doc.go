// Package schematest checks and runs the manifests of launch k8s with Kubernetes itself; there is
// no cluster.
//
//	schema_test.go     every field against the published OpenAPI schemas, and JobSet's definition with its rules; unknown fields are refused
//	words_test.go      which names, labels and amounts are right, as launch k8s has it
//	admission_test.go  defaults, validation and Pod Security as in the API server
//	rules_test.go      what becomes of pods that end, by the Job controller, on fake time
//	run_test.go        the pods' commands as processes on this machine, started and replaced by the Job controller
//
// Schemas and code come from the modules k8s.io/kubernetes and sigs.k8s.io/jobset (Apache License
// 2.0), whose versions and checksums go.mod and go.sum have. The manifests are the golden ones in
// ../testdata.
package schematest
