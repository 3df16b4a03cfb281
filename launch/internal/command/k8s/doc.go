// Package k8s is `launch k8s`: it prints the manifests of a job for Kubernetes.
//
// A pod of the job will run launch with the flags that are given here. They are read in full when
// the manifests are made, so that a mistake is an error of this command and not of a pod. The
// manifests themselves are launch/internal/kubernetes.
//
// Flags that have no meaning in a cluster are refused with a reason (notInCluster) rather than left
// out. Variables of this machine do not count: those of the pods will be others. The job's secret
// is in a file of the user's, made once, so that printing the manifests again changes nothing that
// runs.
package k8s
