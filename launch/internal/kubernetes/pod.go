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

// requirements request what they limit: the pod has that for itself, and is among the last to be evicted.
func (r Resources) requirements(gpus int) core.ResourceRequirements {
	limits := core.ResourceList{}
	if r.CPUs != "" {
		limits[core.ResourceCPU] = resource.MustParse(r.CPUs)
	}
	if r.Memory != "" {
		limits[core.ResourceMemory] = resource.MustParse(r.Memory)
	}
	if gpus > 0 {
		limits[gpuResource] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
	}
	if len(limits) == 0 {
		return core.ResourceRequirements{}
	}
	return core.ResourceRequirements{Limits: limits, Requests: limits.DeepCopy()}
}
