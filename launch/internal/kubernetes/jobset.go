//go:build !nokubernetes

package kubernetes

import (
	batch "k8s.io/api/batch/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// jobSet is all Jobs in one. It is complete when the scheduler's Job is, and fails when any of them fails: the pods that are left are
// deleted in both cases.
func (c *Config) jobSet(jobs []batch.JobSpec) v1alpha2.JobSet {
	m := c.meta(c.Name, "")
	c.queue(&m)
	set := v1alpha2.JobSet{TypeMeta: kind("jobset.x-k8s.io/v1alpha2", "JobSet"), ObjectMeta: m, Spec: v1alpha2.JobSetSpec{
		Network:       &v1alpha2.Network{EnableDNSHostnames: new(true), Subdomain: c.Name, PublishNotReadyAddresses: new(true)},
		SuccessPolicy: &v1alpha2.SuccessPolicy{Operator: v1alpha2.OperatorAll, TargetReplicatedJobs: []string{schedulerName}},
		FailurePolicy: &v1alpha2.FailurePolicy{MaxRestarts: 0},
		Suspend:       c.suspend(),
	}}
	for i, name := range []string{schedulerName, serversName, workersName} {
		set.Spec.ReplicatedJobs = append(set.Spec.ReplicatedJobs, v1alpha2.ReplicatedJob{
			Name: name, Replicas: 1, Template: batch.JobTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: c.labels(name)}, Spec: jobs[i]},
		})
	}
	return set
}
