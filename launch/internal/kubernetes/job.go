//go:build !nokubernetes

package kubernetes

import (
	"slices"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Exit codes that the rules are about.
const (
	exitUsage     = 2
	exitRequeue   = 85
	exitKilled    = 137
	exitSignalled = 143
)

const (
	// retries is how often a pod of one index, or the scheduler's, is replaced after a failure of its own.
	retries = 6
	// margin is what a pod has between the end of its own leave time and SIGKILL.
	margin = 10 * time.Second
)

// disrupted replaces a pod that the cluster took away, and does not count it.
var disrupted = batch.PodFailurePolicyRule{
	Action:          batch.PodFailurePolicyActionIgnore,
	OnPodConditions: []batch.PodFailurePolicyOnPodConditionsPattern{{Type: core.DisruptionTarget, Status: core.ConditionTrue}},
}

// exits is a rule about exit codes of the pod's container.
func exits(action batch.PodFailurePolicyAction, operator batch.PodFailurePolicyOnExitCodesOperator, codes ...int32) batch.PodFailurePolicyRule {
	return batch.PodFailurePolicyRule{Action: action, OnExitCodes: &batch.PodFailurePolicyOnExitCodesRequirement{
		ContainerName: new(containerName), Operator: operator, Values: codes,
	}}
}

// Scheduler are the arguments of launch in the scheduler's pod: own flags of launch, and what the workers run.
func Scheduler(agents int, own, command []string) []string {
	args := []string{"--launcher", "agents", "--agents", number(agents), "--listen", ":" + number(port), "--secret-file", secretFile}
	return slices.Concat(args, own, []string{"--"}, command)
}

// scheduler is the Job whose pod runs launch.
func (c *Config) scheduler() batch.JobSpec {
	pod := c.pod(schedulerName, Scheduler(c.Servers+c.pods(), c.Arguments, c.Command))
	// Workers have the stop timeout, then all other processes have it.
	pod.Spec.TerminationGracePeriodSeconds = new(seconds(2*c.StopTimeout + 2*margin))
	pod.Spec.Containers[0].Ports = []core.ContainerPort{{Name: portName, ContainerPort: port, Protocol: core.ProtocolTCP}}
	pod.Spec.Containers[0].Resources = Resources{}.requirements(0, defaultScheduler, 1)
	job := indexed(1, pod)
	job.BackoffLimit = new(int32(retries))
	job.PodFailurePolicy.Rules = []batch.PodFailurePolicyRule{
		disrupted,
		exits(batch.PodFailurePolicyActionFailJob, batch.PodFailurePolicyOnExitCodesOpNotIn, exitRequeue, exitKilled, exitSignalled),
	}
	return job
}

// agents is the Job of servers or workers.
func (c *Config) agents(component string) batch.JobSpec {
	pods, slots := c.Servers, 1
	if component == workersName {
		pods, slots = c.pods(), c.Slots
	}
	pod := c.pod(component, []string{
		"agent", "--join", c.schedulerAddress(), "--secret-file", secretFile, "--runs", component, "--slots", number(slots),
		"--join-timeout", waitTime.String(), "--rejoin", waitTime.String(), "--drain", c.Drain.String(),
	})
	pod.Spec.TerminationGracePeriodSeconds = new(seconds(c.Drain + margin))
	container := &pod.Spec.Containers[0]
	if component == workersName {
		container.Resources = c.Worker.requirements(c.GPUs*slots, defaultWorker, slots)
	} else {
		container.Resources = c.Server.requirements(0, defaultServer, 1)
	}
	job := indexed(pods, pod)
	job.BackoffLimitPerIndex = new(int32(retries))
	job.PodFailurePolicy.Rules = []batch.PodFailurePolicyRule{
		disrupted,
		exits(batch.PodFailurePolicyActionFailJob, batch.PodFailurePolicyOnExitCodesOpIn, exitUsage),
	}
	return job
}

// indexed is a Job of pods that run at the same time. A replacement starts when the pod before it has ended: two pods never have one name.
func indexed(pods int, pod core.PodTemplateSpec) batch.JobSpec {
	n := int32(pods)
	return batch.JobSpec{
		CompletionMode: new(batch.IndexedCompletion), Completions: &n, Parallelism: &n,
		PodFailurePolicy: &batch.PodFailurePolicy{}, PodReplacementPolicy: new(batch.Failed), Template: pod,
	}
}

// seconds are a duration in whole seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// schedulerAddress is where launch waits for agents.
func (c *Config) schedulerAddress() string {
	host := c.Name + "-" + schedulerName + "-0"
	if c.JobSet {
		host += "-0" // job 0, pod 0
	}
	return host + "." + c.Name + ":" + number(port)
}

// pod is what the pods of all three Jobs have in common. It meets the Pod Security Standard "restricted".
func (c *Config) pod(component string, args []string) core.PodTemplateSpec {
	selector, _ := nodeSelector(c.NodeSelector)
	tolerate, _ := tolerations(c.Tolerations)
	volumes, mounts := c.volumes()
	for i, a := range args {
		args[i] = literal(a)
	}
	spec := core.PodSpec{
		AutomountServiceAccountToken: new(false), // nothing in the pod speaks to Kubernetes
		EnableServiceLinks:           new(false),
		RestartPolicy:                core.RestartPolicyNever,
		NodeSelector:                 selector, Tolerations: tolerate,
		SecurityContext: &core.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: &c.User, RunAsGroup: &c.User,
			FSGroup: &c.User, FSGroupChangePolicy: new(core.FSGroupChangeOnRootMismatch),
			SeccompProfile: &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []core.Container{{
			Name: containerName, Image: c.Image, Command: []string{"launch"}, Args: args, WorkingDir: tmpPath,
			Env: []core.EnvVar{{Name: "HOME", Value: tmpPath}},
			SecurityContext: &core.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), RunAsNonRoot: new(true),
				Capabilities: &core.Capabilities{Drop: []core.Capability{"ALL"}},
			},
			TerminationMessagePolicy: core.TerminationMessageFallbackToLogsOnError,
			VolumeMounts:             mounts,
		}},
		Volumes: volumes,
	}
	if !c.JobSet { // a JobSet sets it
		spec.Subdomain = c.Name
	}
	return core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: c.labels(component)}, Spec: spec}
}
