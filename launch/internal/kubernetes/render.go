package kubernetes

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/paragon-train/paragon/internal/observe/plural"
)

// Render returns the manifests: YAML documents that kubectl apply takes.
func Render(c Config) ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	objects := []object{c.secret()}
	jobs := []object{c.scheduler(), c.agents(serversName), c.agents(workersName)}
	if c.JobSet {
		objects = append(objects, c.jobSet(jobs))
	} else {
		objects = append(objects, c.service())
		for i, name := range []string{schedulerName, serversName, workersName} {
			job := c.object("batch/v1", "Job", c.Name+"-"+name, name)
			job["spec"] = jobs[i]
			c.queue(job)
			objects = append(objects, job)
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
	out.WriteString(c.header() + "---\n")
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	for _, o := range objects {
		if err := e.Encode(o); err != nil {
			return nil, fmt.Errorf("launch: k8s: %w", err)
		}
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("launch: k8s: %w", err)
	}
	return out.Bytes(), nil
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

func (c *Config) secret() object {
	o := c.object("v1", "Secret", c.Name+"-secret", "")
	o["immutable"], o["type"], o["stringData"] = true, "Opaque", object{secretKey: c.Secret + "\n"}
	return o
}

// service gives every pod a name, NAME-scheduler-0.NAME and so on, as soon as the pod has an
// address.
func (c *Config) service() object {
	o := c.object("v1", "Service", c.Name, "")
	o["spec"] = object{
		"clusterIP": "None", "selector": c.labels(""), "publishNotReadyAddresses": true,
		"ports": []object{{"name": portName, "port": port, "targetPort": portName, "protocol": "TCP"}},
	}
	return o
}

// budget lets so few pods be evicted at once that so many are left. For pods of a Job the number
// must be an integer that has to be left: maxUnavailable and percentages ask the owner for its
// scale, which a Job does not have.
func (c *Config) budget(component string, least int) object {
	o := c.object("policy/v1", "PodDisruptionBudget", c.Name+"-"+component, component)
	o["spec"] = object{
		"minAvailable": least, "selector": object{"matchLabels": c.labels(component)}, "unhealthyPodEvictionPolicy": "AlwaysAllow",
	}
	return o
}
