package kubernetes

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// StartTimeout is launch's --start-timeout in a cluster, where it is not given.
const StartTimeout = waitTime

// An argument is a word of the container's command line.
type argument string

// literal is an argument that Kubernetes passes on as the word that it is: there $(NAME) is a
// variable and $$ a dollar.
func literal(word string) argument { return argument(text(strings.ReplaceAll(word, "$", "$$"))) }

// MarshalYAML implements yaml.Marshaler. The encoder would write lines of which the first begins
// with a tab as a block, whose indentation no reader can tell from the tab.
func (a argument) MarshalYAML() (any, error) {
	if strings.HasPrefix(string(a), "\t") && strings.Contains(string(a), "\n") {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: string(a), Style: yaml.DoubleQuotedStyle}, nil
	}
	return string(a), nil
}

// text is what JSON can hold of a word, in which Kubernetes keeps it: bytes that are not UTF-8 are
// replaced.
func text(word string) string { return string([]rune(word)) }

// volumes are those of every pod. The root file system is read-only; /tmp is the pod's own.
func (c *Config) volumes() (volumes, mounts []object) {
	volumes = []object{
		{"name": "tmp", "emptyDir": object{}},
		// The group of the pod (fsGroup) may read it.
		{"name": "secret", "secret": object{"secretName": c.Name + "-secret", "defaultMode": 0o440}},
	}
	mounts = []object{{"name": "tmp", "mountPath": tmpPath}, {"name": "secret", "mountPath": secretPath, "readOnly": true}}

	// claims has the names of the pod's volumes by those of their claims.
	claims := make(map[string]string)
	for _, v := range c.Volumes {
		name, ok := claims[v.Claim]
		if !ok {
			name = "claim-" + number(len(claims))
			claims[v.Claim] = name
			volumes = append(volumes, object{"name": name, "persistentVolumeClaim": object{"claimName": v.Claim}})
		}
		mount := object{"name": name, "mountPath": text(v.Path)}
		if v.ReadOnly {
			mount["readOnly"] = true
		}
		mounts = append(mounts, mount)
	}
	return volumes, mounts
}

// What a pod requests where the job does not say. Quotas refuse pods that request nothing, and a
// node that lacks memory evicts them first. There is no limit then: what a program needs is not
// known here.
var (
	defaultScheduler = Resources{CPUs: "250m", Memory: "256Mi"}
	defaultServer    = Resources{CPUs: "500m", Memory: "1Gi"}
)

func defaultWorkers(n int) Resources { return Resources{CPUs: number(n), Memory: number(2*n) + "Gi"} }

// requirements request what they limit: the pod has that for itself, and is among the last to be
// evicted. What is not given is requested without a limit.
func (r Resources) requirements(gpus int, unsaid Resources) object {
	limits, requests := object{}, object{}
	for _, x := range []struct{ name, given, unsaid string }{{"cpu", r.CPUs, unsaid.CPUs}, {"memory", r.Memory, unsaid.Memory}} {
		switch x.given {
		case Unrequested:
		case "":
			requests[x.name] = x.unsaid
		default:
			limits[x.name], requests[x.name] = x.given, x.given
		}
	}
	if gpus > 0 {
		limits[gpuResource], requests[gpuResource] = number(gpus), number(gpus)
	}
	all := object{}
	if len(limits) > 0 {
		all["limits"] = limits
	}
	if len(requests) > 0 {
		all["requests"] = requests
	}
	return all
}
