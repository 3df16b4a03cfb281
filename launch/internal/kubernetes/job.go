package kubernetes

import (
	"slices"
	"time"
)

// Exit codes that the rules are about.
const (
	exitUsage     = 2
	exitRequeue   = 85
	exitKilled    = 137
	exitSignalled = 143
)

const (
	// retries is how often a pod of one index, or the scheduler's, is replaced after a failure
	// of its own.
	retries = 6
	// margin is what a pod has between the end of its own leave time and SIGKILL.
	margin = 10 * time.Second
)

// disrupted replaces a pod that the cluster took away, and does not count it.
var disrupted = object{"action": "Ignore", "onPodConditions": []object{{"type": "DisruptionTarget", "status": "True"}}}

// failing ends the Job by the exit code of a pod's container: operator is In or NotIn.
func failing(operator string, codes ...int) object {
	return object{"action": "FailJob", "onExitCodes": object{"containerName": containerName, "operator": operator, "values": codes}}
}

// Scheduler are the arguments of launch in the scheduler's pod: own flags of launch, and what the
// workers run.
func Scheduler(agents int, own, command []string) []string {
	args := []string{"--launcher", "agents", "--agents", number(agents), "--listen", ":" + number(port), "--secret-file", secretFile}
	return slices.Concat(args, own, []string{"--"}, command)
}

// scheduler is the Job whose pod runs launch.
func (c *Config) scheduler() object {
	// Workers have the stop timeout, then all other processes have it.
	pod := c.pod(schedulerName, 2*c.StopTimeout+2*margin, Resources{}.requirements(0, defaultScheduler),
		Scheduler(c.Servers+c.pods(), c.Arguments, c.Command))
	job := indexed(1, pod, failing("NotIn", exitRequeue, exitKilled, exitSignalled))
	job["backoffLimit"] = retries
	return job
}

// agents is the Job of servers or workers.
func (c *Config) agents(component string) object {
	pods, slots, resources := c.Servers, 1, c.Server.requirements(0, defaultServer)
	if component == workersName {
		pods, slots, resources = c.pods(), c.Slots, c.Worker.requirements(c.GPUs*c.Slots, defaultWorkers(c.Slots))
	}
	pod := c.pod(component, c.Drain+margin, resources, []string{
		"agent", "--join", c.schedulerAddress(), "--secret-file", secretFile, "--runs", component, "--slots", number(slots),
		"--join-timeout", waitTime.String(), "--rejoin", waitTime.String(), "--drain", c.Drain.String(),
	})
	job := indexed(pods, pod, failing("In", exitUsage))
	job["backoffLimitPerIndex"] = retries
	return job
}

// indexed is a Job of pods that run at the same time. A replacement starts when the pod before it
// has ended: two pods never have one name.
func indexed(pods int, pod, failing object) object {
	return object{
		"completionMode": "Indexed", "completions": pods, "parallelism": pods,
		"podFailurePolicy": object{"rules": []object{disrupted, failing}}, "podReplacementPolicy": "Failed", "template": pod,
	}
}

// seconds are a duration in whole seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// schedulerAddress is where launch waits for agents.
func (c *Config) schedulerAddress() string {
	host := c.Name + "-" + schedulerName + "-0"
	if c.JobSet {
		// A JobSet numbers its Jobs, too: this is pod 0 of Job 0.
		host += "-0"
	}
	return host + "." + c.Name + ":" + number(port)
}

// pod is what the pods of all three Jobs have in common. It meets the Pod Security Standard
// "restricted".
func (c *Config) pod(component string, leave time.Duration, resources object, args []string) object {
	selector, _ := nodeSelector(c.NodeSelector)
	tolerate, _ := tolerations(c.Tolerations)
	volumes, mounts := c.volumes()
	literals := make([]argument, len(args))
	for i, a := range args {
		literals[i] = literal(a)
	}
	container := object{
		"name": containerName, "image": c.Image, "command": []string{"launch"}, "args": literals, "workingDir": tmpPath,
		"env":       []object{{"name": "HOME", "value": tmpPath}},
		"resources": resources,
		"securityContext": object{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
			"capabilities": object{"drop": []string{"ALL"}},
		},
		"terminationMessagePolicy": "FallbackToLogsOnError",
		"volumeMounts":             mounts,
	}
	if component == schedulerName {
		container["ports"] = []object{{"name": portName, "containerPort": port, "protocol": "TCP"}}
	}
	spec := object{
		// The pod never asks Kubernetes for anything.
		"automountServiceAccountToken": false,
		"enableServiceLinks":           false,
		"restartPolicy":                "Never",
		"securityContext": object{
			"runAsNonRoot": true, "runAsUser": c.User, "runAsGroup": c.User,
			"fsGroup": c.User, "fsGroupChangePolicy": "OnRootMismatch",
			"seccompProfile": object{"type": "RuntimeDefault"},
		},
		"terminationGracePeriodSeconds": seconds(leave),
		"containers":                    []object{container},
		"volumes":                       volumes,
	}
	if len(selector) > 0 {
		spec["nodeSelector"] = selector
	}
	if len(tolerate) > 0 {
		spec["tolerations"] = tolerate
	}

	// A JobSet sets it for its Jobs.
	if !c.JobSet {
		spec["subdomain"] = c.Name
	}
	return object{"metadata": object{"labels": c.labels(component)}, "spec": spec}
}
