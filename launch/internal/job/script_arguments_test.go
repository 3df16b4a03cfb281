package job

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

type arguments map[string]string

func (a arguments) num(name string, other int) int {
	if a[name] == "" {
		return other
	}
	n, err := strconv.Atoi(a[name])
	if err != nil {
		panic(err)
	}
	return n
}

func (a arguments) or(name, other string) string {
	if v, ok := a[name]; ok {
		return v
	}
	return other
}

func (a arguments) err() error {
	if a["error"] == "" {
		return nil
	}
	return errors.New(a["error"])
}

func (a arguments) hosts(name string) (list []hosts.Host) {
	for h := range strings.SplitSeq(a[name], ",") {
		if h == "" {
			continue
		}
		h, slots, _ := strings.Cut(h, "*")
		host, err := hosts.ParseHost(h)
		if err != nil {
			panic(err)
		}
		host.Slots, _ = strconv.Atoi(slots)
		list = append(list, host)
	}
	return list
}

func parseArguments(line string) (command string, a arguments) {
	a = make(arguments)
	if i := strings.IndexByte(line, '{'); i >= 0 {
		line, a["json"] = line[:i], line[i:]
	}
	words := strings.Fields(line)
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		a[k] = strings.ReplaceAll(v, "_", " ")
	}
	return words[0], a
}

// scriptSettings are those of a job.
func scriptSettings(a arguments) settings {
	place := a.hosts("hosts")
	on := func(i int) hosts.Host {
		if len(place) == 0 {
			return hosts.Local
		}
		return place[i%len(place)]
	}
	cfg := Config{Command: []string{"train"}, HostIP: a["hostip"], Elastic: Elastic{Enabled: a["elastic"] != "", OnWorkerLoss: a["loss"],
		Rejoin: a.num("rejoin", 0), Backups: a.num("backups", 0), State: a["state"], MinWorkers: a.num("min", 0), MaxWorkers: a.num("max", 0), AdaptWorkers: a["adapt"] != "", Control: newFakeScheduler().control}}
	if a["gpus"] != "" {
		cfg.GPUs = gpus.Request{Each: a.num("gpus", 1)}
	}
	if a["prepare"] != "" {
		cfg.Elastic.PrepareData = []string{"fetch"}
	}
	if a["join"] != "" {
		cfg.Elastic.JoinTimeout, _ = time.ParseDuration(a["join"])
	}
	if a["patience"] != "" {
		cfg.HostTimeout, _ = time.ParseDuration(a["patience"])
	}
	cfg.Hosts = a.hosts("slots")
	if h := a.hosts("scheduler"); h != nil {
		cfg.SchedulerHost = &h[0]
	}
	for i := range a.num("workers", 2) {
		cfg.Workers = append(cfg.Workers, on(i))
	}
	for i := range a.num("servers", 1) {
		cfg.Servers = append(cfg.Servers, on(i))
	}
	if err := cfg.setDefaults(); err != nil {
		panic(err)
	}
	cfg.ResumeCommand = a["resume"]
	set := cfg.settings("j")
	set.Remote = len(place) > 0
	return set
}
