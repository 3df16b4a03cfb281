//go:build !nokubernetes

package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/paragon-train/paragon/internal/plural"
)

// Names of the three Jobs, after that of the job.
const (
	schedulerName = "scheduler"
	serversName   = "servers"
	workersName   = "workers"
)

// Render returns the manifests: YAML documents that kubectl apply takes.
func Render(c Config) ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	objects := []any{c.secret()}
	jobs := []batch.JobSpec{c.scheduler(), c.agents(serversName), c.agents(workersName)}
	if c.JobSet {
		objects = append(objects, c.jobSet(jobs))
	} else {
		objects = append(objects, c.service())
		for i, name := range []string{schedulerName, serversName, workersName} {
			jobs[i].Suspend = c.suspend()
			m := c.meta(c.Name+"-"+name, name)
			c.queue(&m)
			objects = append(objects, batch.Job{TypeMeta: kind("batch/v1", "Job"), ObjectMeta: m, Spec: jobs[i]})
		}
	}
	for _, d := range []struct {
		name  string
		least int
	}{{serversName, c.Servers - 1}, {workersName, c.leastPods()}} {
		if d.least > 0 {
			objects = append(objects, c.budget(d.name, d.least))
		}
	}
	var out bytes.Buffer
	out.WriteString(c.header())
	for _, o := range objects {
		text, err := encode(o)
		if err != nil {
			return nil, fmt.Errorf("launch: k8s: %w", err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes(), nil
}

// encode is the object as YAML, its fields in alphabetical order, without the status, which is the cluster's.
func encode(object any) ([]byte, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := yaml.Unmarshal(text, &fields); err != nil { // YAML takes JSON, and keeps integers
		return nil, err
	}
	delete(fields, "status")
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(fields); err != nil {
		return nil, err
	}
	return out.Bytes(), e.Close()
}

// header says what the file is, and how to use it.
func (c *Config) header() string {
	in := ""
	if c.Namespace != "" {
		in = " -n " + c.Namespace
	}
	job := "job/" + c.Name + "-" + schedulerName
	workers := plural.Of(c.Workers, "worker")
	if c.Slots > 1 {
		workers += fmt.Sprintf(" (%d in a pod)", c.Slots)
	}
	workersJob := "job/" + c.Name + "-" + workersName
	if c.JobSet {
		job += "-0"
	}
	lines := []string{
		fmt.Sprintf("Job %s: %s, for a scheduler, %s and %s. Made by launch k8s render; holds the job's secret.", c.Name, plural.Of(1+c.Servers+c.pods(), "pod"), plural.Of(c.Servers, "server"), workers),
		"start:     kubectl apply -f FILE",
		"output:    kubectl logs" + in + " -f " + job,
		"state:     kubectl exec" + in + " " + job + " -- launch ctl status",
	}
	if c.Elastic && !c.JobSet && c.Queue == "" {
		lines = append(lines, "scale:     kubectl patch"+in+" "+workersJob+` -p '{"spec":{"completions":PODS,"parallelism":PODS}}'`)
	}
	lines = append(lines, "remove:    kubectl delete -f FILE")
	return "# " + strings.Join(lines, "\n# ") + "\n"
}

func kind(version, name string) meta.TypeMeta { return meta.TypeMeta{APIVersion: version, Kind: name} }

// labels are those of an object of the job; component is one of its three Jobs, or "" for all.
func (c *Config) labels(component string) map[string]string {
	l := map[string]string{"app.kubernetes.io/name": "paragon", "app.kubernetes.io/instance": c.Name}
	if component != "" {
		l["app.kubernetes.io/component"] = component
	}
	return l
}

func (c *Config) meta(name, component string) meta.ObjectMeta {
	return meta.ObjectMeta{Name: name, Namespace: c.Namespace, Labels: c.labels(component)}
}

// queue hands what m is of to Kueue, which starts it when there is room.
func (c *Config) queue(m *meta.ObjectMeta) {
	if c.Queue != "" {
		m.Labels["kueue.x-k8s.io/queue-name"] = c.Queue
	}
}

func (c *Config) suspend() *bool {
	if c.Queue == "" {
		return nil
	}
	return new(true)
}

func (c *Config) secret() core.Secret {
	return core.Secret{
		TypeMeta: kind("v1", "Secret"), ObjectMeta: c.meta(c.Name+"-secret", ""),
		Immutable: new(true), Type: core.SecretTypeOpaque, StringData: map[string]string{secretKey: c.Secret + "\n"},
	}
}

// service gives every pod a name, NAME-scheduler-0.NAME and so on, as soon as the pod has an address.
func (c *Config) service() core.Service {
	return core.Service{
		TypeMeta: kind("v1", "Service"), ObjectMeta: c.meta(c.Name, ""),
		Spec: core.ServiceSpec{
			ClusterIP: core.ClusterIPNone, Selector: c.labels(""), PublishNotReadyAddresses: true,
			Ports: []core.ServicePort{{Name: portName, Port: port, TargetPort: intstr.FromString(portName), Protocol: core.ProtocolTCP}},
		},
	}
}

// budget lets so few pods be evicted at once that so many are left. For pods of a Job the number must be an integer that has to be left:
// maxUnavailable and percentages ask the owner for its scale, which a Job does not have.
func (c *Config) budget(component string, least int) policy.PodDisruptionBudget {
	return policy.PodDisruptionBudget{
		TypeMeta: kind("policy/v1", "PodDisruptionBudget"), ObjectMeta: c.meta(c.Name+"-"+component, component),
		Spec: policy.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(int32(least))), Selector: &meta.LabelSelector{MatchLabels: c.labels(component)},
			UnhealthyPodEvictionPolicy: new(policy.AlwaysAllow),
		},
	}
}
