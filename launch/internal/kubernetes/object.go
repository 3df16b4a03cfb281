package kubernetes

import (
	"strconv"
)

// An object is a manifest, or a part of one, by the names of its fields. It is written with its
// fields in alphabetical order.
type object = map[string]any

// labels are those of an object of the job; component is one of its three Jobs, or "" for all.
func (c *Config) labels(component string) object {
	l := object{"app.kubernetes.io/name": "paragon", "app.kubernetes.io/instance": c.Name}
	if component != "" {
		l["app.kubernetes.io/component"] = component
	}
	return l
}

// object is the beginning of a manifest.
func (c *Config) object(version, kind, name, component string) object {
	meta := object{"name": name, "labels": c.labels(component)}
	if c.Namespace != "" {
		meta["namespace"] = c.Namespace
	}
	return object{"apiVersion": version, "kind": kind, "metadata": meta}
}

// queue hands a Job or JobSet to Kueue, which starts it when there is room.
func (c *Config) queue(o object) {
	if c.Queue != "" {
		o["metadata"].(object)["labels"].(object)["kueue.x-k8s.io/queue-name"] = c.Queue
		o["spec"].(object)["suspend"] = true
	}
}

func number(n int) string { return strconv.Itoa(n) }

// Names of the three Jobs, after that of the job.
const (
	schedulerName = "scheduler"
	serversName   = "servers"
	workersName   = "workers"
)
