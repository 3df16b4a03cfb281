//go:build !nokubernetes

package kubernetes

import (
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	containerName = "launch"
	port          = 7077
	portName      = "join"
	tmpPath       = "/tmp"
	secretPath    = "/etc/paragon/secret"
	secretKey     = "secret"
	secretFile    = secretPath + "/" + secretKey
	gpuResource   = "nvidia.com/gpu"
	// waitTime is how long an agent looks for a launcher, and launch waits for agents: pods may stay pending while nodes are added.
	waitTime = time.Hour
)

// StartTimeout is launch's --start-timeout in a cluster, where it is not given.
const StartTimeout = waitTime

// literal is a word of the container's command line that Kubernetes passes on as it is: there $(NAME) is a variable and $$ a dollar.
func literal(word string) string { return strings.ReplaceAll(word, "$", "$$") }

// volumes are those of every pod. The root file system is read-only; /tmp is the pod's own.
func (c *Config) volumes() ([]core.Volume, []core.VolumeMount) {
	volumes := []core.Volume{
		{Name: "tmp", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}},
		// The group of the pod (fsGroup) may read it.
		{Name: "secret", VolumeSource: core.VolumeSource{Secret: &core.SecretVolumeSource{SecretName: c.Name + "-secret", DefaultMode: new(int32(0o440))}}},
	}
	mounts := []core.VolumeMount{{Name: "tmp", MountPath: tmpPath}, {Name: "secret", MountPath: secretPath, ReadOnly: true}}
	claims := make(map[string]string) // the names of volumes
	for _, v := range c.Volumes {
		name, ok := claims[v.Claim]
		if !ok {
			name = "claim-" + number(len(claims))
			claims[v.Claim] = name
			volumes = append(volumes, core.Volume{Name: name, VolumeSource: core.VolumeSource{
				PersistentVolumeClaim: &core.PersistentVolumeClaimVolumeSource{ClaimName: v.Claim},
			}})
		}
		mounts = append(mounts, core.VolumeMount{Name: name, MountPath: v.Path, ReadOnly: v.ReadOnly})
	}
	return volumes, mounts
}

// Unrequested is the amount of Resources by which a pod requests nothing.
const Unrequested = "none"

// What a pod requests where the job does not say. Quotas refuse pods that request nothing, and a node that lacks memory evicts them first. There is no limit
// then: what a program needs is not known here.
var (
	defaultWorker    = Resources{CPUs: "1", Memory: "2Gi"} // each worker of a pod
	defaultServer    = Resources{CPUs: "500m", Memory: "1Gi"}
	defaultScheduler = Resources{CPUs: "250m", Memory: "256Mi"}
)

// requirements request what they limit: the pod has that for itself, and is among the last to be evicted. What is not given is requested, n times, without a
// limit.
func (r Resources) requirements(gpus int, unsaid Resources, n int) core.ResourceRequirements {
	limits, requests := core.ResourceList{}, core.ResourceList{}
	for _, x := range []struct {
		name          core.ResourceName
		given, unsaid string
	}{{core.ResourceCPU, r.CPUs, unsaid.CPUs}, {core.ResourceMemory, r.Memory, unsaid.Memory}} {
		switch x.given {
		case Unrequested:
		case "":
			amount := resource.MustParse(x.unsaid)
			amount.Mul(int64(n))
			requests[x.name] = amount
		default:
			limits[x.name], requests[x.name] = resource.MustParse(x.given), resource.MustParse(x.given)
		}
	}
	if gpus > 0 {
		amount := *resource.NewQuantity(int64(gpus), resource.DecimalSI)
		limits[gpuResource], requests[gpuResource] = amount, amount
	}
	if len(limits) == 0 {
		limits = nil
	}
	if len(requests) == 0 {
		requests = nil
	}
	return core.ResourceRequirements{Limits: limits, Requests: requests}
}
