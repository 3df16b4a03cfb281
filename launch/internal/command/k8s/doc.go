// Package k8s is `launch k8s`: it prints the manifests of a job for Kubernetes.
//
// A pod of the job will run launch with the flags that are given here. They are read in full when the
// manifests are made, so that a mistake is an error of this command and not of a pod. The manifests
// themselves are launch/internal/kubernetes.
package k8s
