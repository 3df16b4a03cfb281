package kubernetes

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Validate names the first field that cannot be, by the flag that sets it.
func (c *Config) Validate() error {
	longest := 63 - len("-"+workersName) - maxIndex
	switch {
	case c.Image == "":
		return errors.New("the image is missing; give --image NAME, such as registry.example.com/me/train:1 (launch image makes one)")
	case !imageName.MatchString(c.Image):
		return fmt.Errorf("--image %q is not the name of an image; want [host[:port]/]path[:tag][@digest] in lower case, such as registry.example.com/me/train:1", c.Image)
	case !isName(c.Name):
		return fmt.Errorf("--name %q is not a DNS name; want lower-case letters, digits and -, with a letter first, such as resnet-1", c.Name)
	case len(c.Name) > longest:
		return fmt.Errorf("--name %s has %d letters, want at most %d: the host names of the pods begin with it, and have at most 63", c.Name, len(c.Name), longest)
	case c.Namespace != "" && !isLabel(c.Namespace):
		return fmt.Errorf("--namespace %q is not a DNS name; want lower-case letters, digits and -", c.Namespace)
	case c.Queue != "" && !isSubdomain(c.Queue, maxLabel):
		// It is the value of a label, too.
		return fmt.Errorf("--kueue %q is not the name of a LocalQueue; want lower-case letters, digits and -", c.Queue)
	case c.Workers < 1, c.Servers < 1:
		return fmt.Errorf("%d workers and %d servers, want 1 or more of each", c.Workers, c.Servers)
	case c.Slots < 1:
		return fmt.Errorf("--slots is %d, want 1 or more workers in each pod", c.Slots)
	case c.Slots > 1 && c.Slots > c.Workers:
		return fmt.Errorf("--slots %d is more than the %d workers of -n; a pod would never be full", c.Slots, c.Workers)
	case c.User < 1:
		return fmt.Errorf("--user is %d, want a number above 0: root is not allowed", c.User)
	case c.Drain < time.Second:
		return fmt.Errorf("--drain is %s, want at least 1s", c.Drain)
	case c.Secret == "":
		return errors.New("there is no secret")
	}
	if err := c.validateCommand(); err != nil {
		return err
	}
	for _, r := range []struct{ flag, text string }{
		{"cpus", c.Worker.CPUs}, {"memory", c.Worker.Memory}, {"server-cpus", c.Server.CPUs}, {"server-memory", c.Server.Memory},
	} {
		if r.text == "" || r.text == Unrequested {
			continue
		}
		if !isAmount(r.text) {
			return fmt.Errorf("--%s %q is not an amount above 0; write it as Kubernetes does: 500m or 4 processors, 512Mi or 16Gi of memory, or %s", r.flag, r.text, Unrequested)
		}
	}
	paths := make(map[string]bool)
	for _, v := range c.Volumes {
		if paths[v.Path] {
			return fmt.Errorf("--pvc: two volumes at %s", v.Path)
		}
		paths[v.Path] = true
	}
	if folder, bad := c.checkpointFolder(); bad != nil {
		return fmt.Errorf("%s %s: %w; mount a volume that all pods share there, --pvc CLAIM:%[2]s, or give a bucket, such as s3://...", checkpointFlag, folder, bad)
	}
	if _, err := nodeSelector(c.NodeSelector); err != nil {
		return err
	}
	_, err := tolerations(c.Tolerations)
	return err
}

func (c *Config) validateCommand() error {
	switch {
	case len(c.Command) == 0 || c.Command[0] == "":
		return errors.New("no command for the workers; write it at the end: launch k8s render --image NAME -n 2 -- /app/train")
	case path.Base(c.Command[0]) == "go" && len(c.Command) > 1 && c.Command[1] == "run":
		return errors.New("go run compiles, which an image for training cannot do; build the program into the image (launch image does) and give its path in there")
	case strings.Contains(c.Command[0], "/") && !path.IsAbs(c.Command[0]) && !strings.ContainsAny(c.Command[0], " \t\n"):
		return fmt.Errorf("%s is relative to the current folder, which the pods do not have; give the program's path in the image, such as /app/%s", c.Command[0], path.Base(c.Command[0]))
	}
	for _, word := range append(append([]string(nil), c.Arguments...), c.Command...) {
		if strings.ContainsRune(word, 0) {
			return fmt.Errorf("argument %q contains a NUL byte", word)
		}
	}
	return nil
}

// nodeSelector reads KEY=VALUE.
func nodeSelector(texts []string) (map[string]string, error) {
	var labels map[string]string
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok || !isLabelKey(key) || !isLabelValue(value) {
			return nil, fmt.Errorf("--node-selector %q is not a label; write key=value, such as topology.kubernetes.io/zone=eu-1a", text)
		}
		if labels == nil {
			labels = make(map[string]string)
		}
		if _, twice := labels[key]; twice {
			return nil, fmt.Errorf("--node-selector: %s is given twice", key)
		}
		labels[key] = value
	}
	return labels, nil
}

// tolerations reads KEY[=VALUE][:EFFECT].
func tolerations(texts []string) (all []object, err error) {
	for _, text := range texts {
		rest, effect, _ := strings.Cut(text, ":")
		key, value, valued := strings.Cut(rest, "=")
		if !isLabelKey(key) || !isLabelValue(value) || !slices.Contains([]string{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}, effect) {
			return nil, fmt.Errorf("--toleration %q is not a toleration; write key, key=value or key=value:NoSchedule (NoExecute, PreferNoSchedule)", text)
		}
		t := object{"key": key, "operator": "Exists"}
		if valued {
			t["operator"] = "Equal"
		}
		if value != "" {
			t["value"] = value
		}
		if effect != "" {
			t["effect"] = effect
		}
		all = append(all, t)
	}
	return all, nil
}

// maxIndex is the longest index of a pod in its name: a job has at most 5000 workers and servers.
const maxIndex = len("-0-4999")

// imageName is the grammar of the references of images: [host[:port]/]path[:tag][@digest].
var imageName = regexp.MustCompile(`^(?:(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/)?` +
	`[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*)*` +
	`(?::[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?(?:@[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[0-9a-fA-F]{32,})?$`)
