package kubernetes

// jobSet is all Jobs in one. It is complete when the scheduler's Job is, and fails when any of them
// fails, without a restart: the pods that are left are deleted in both cases.
func (c *Config) jobSet(jobs []object) object {
	var all []object
	for i, name := range []string{schedulerName, serversName, workersName} {
		all = append(all, object{
			"name": name, "replicas": 1, "template": object{"metadata": object{"labels": c.labels(name)}, "spec": jobs[i]},
		})
	}
	set := c.object("jobset.x-k8s.io/v1alpha2", "JobSet", c.Name, "")
	set["spec"] = object{
		"network":        object{"enableDNSHostnames": true, "subdomain": c.Name, "publishNotReadyAddresses": true},
		"successPolicy":  object{"operator": "All", "targetReplicatedJobs": []string{schedulerName}},
		"failurePolicy":  object{},
		"replicatedJobs": all,
	}
	c.queue(set)
	return set
}
