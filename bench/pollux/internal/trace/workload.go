package trace

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
)

// A Job is a line of a workload: what arrives when, and with how many replicas and which global
// batch its user would run it.
type Job struct {
	Name string

	// Arrival is in seconds.
	Arrival int

	Application string
	Replicas    int
	Batch       int
}

// LoadWorkload reads the jobs of a workload, in order of arrival.
func LoadWorkload(path string) ([]Job, error) {
	rows, err := records(path, "name", "application", "time", "num_replicas", "batch_size")
	if err != nil {
		return nil, err
	}
	jobs := make([]Job, len(rows))
	seen := map[string]bool{}
	for i, r := range rows {
		j := Job{Name: r[0], Application: r[1]}
		for k, to := range []*int{&j.Arrival, &j.Replicas, &j.Batch} {
			if *to, err = strconv.Atoi(r[2+k]); err != nil || *to < 0 || k > 0 && *to == 0 {
				return nil, fmt.Errorf("%s line %d: %q is no valid number", path, i+2, r[2+k])
			}
		}
		if _, ok := names[j.Application]; !ok {
			return nil, fmt.Errorf("%s line %d: unknown application %q", path, i+2, j.Application)
		}
		if seen[j.Name] || i > 0 && j.Arrival < jobs[i-1].Arrival {
			return nil, fmt.Errorf("%s line %d: job %s comes twice, or before the one above it", path, i+2, j.Name)
		}
		seen[j.Name] = true
		jobs[i] = j
	}
	return jobs, nil
}

// A Result is what was published of a policy and a workload: completion times in seconds.
type Result struct {
	Mean float64        `json:"mean"`
	Jobs map[string]int `json:"jobs"`
}

// LoadPublished reads published.json: results by policy and workload.
func LoadPublished(path string) (map[string]map[string]Result, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all map[string]map[string]Result
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}
