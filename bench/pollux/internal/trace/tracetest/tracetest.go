// Package tracetest writes a folder of small made-up traces, for tests that need none of the
// published ones.
package tracetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Applications are the folders that Write makes.
var Applications = []string{"bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"}

// StepTime is what the traces say of a step on nodes, and how much of it is the exchange of
// gradients.
func StepTime(nodes, replicas, localBatch int) (step, sync float64) {
	if replicas > 1 {
		sync = 0.01 + 0.02*float64(nodes-1)
	}
	return 0.05 + 0.0001*float64(localBatch) + sync, sync
}

// Write makes traces, a workload with a job of each application, and nothing published. Every
// application was trained with global batches of 32 to 32768 and local ones of 4 to 32768, for
// three epochs.
func Write(t testing.TB) (folder string) {
	t.Helper()
	folder = t.TempDir()
	var placements, scalability, workload strings.Builder
	placements.WriteString("placement,local_bsz,step_time,sync_time\n")
	scalability.WriteString("num_nodes,num_replicas,local_bsz,step_time,sync_time\n")
	for _, local := range []int{4, 64, 32768} {
		for _, p := range []struct {
			name            string
			nodes, replicas int
		}{{"1", 1, 1}, {"2", 1, 2}, {"3", 1, 3}, {"4", 1, 4}, {"11", 2, 2}, {"44", 2, 8}} {
			step, sync := StepTime(p.nodes, p.replicas, local)
			fmt.Fprintf(&placements, "%s,%d,%v,%v\n", p.name, local, step, sync)
		}
		for _, p := range [][2]int{{4, 4}, {4, 16}, {16, 16}, {16, 64}} {
			step, sync := StepTime(p[0], p[1], local)
			fmt.Fprintf(&scalability, "%d,%d,%d,%v,%v\n", p[0], p[1], local, step, sync)
		}
	}
	workload.WriteString("name,time,application,num_replicas,batch_size\n")
	for i := range Applications {
		fmt.Fprintf(&workload, "job-%d,%d,%s,%d,%d\n", i, 10*i, Applications[i%len(Applications)], 1+i%4, 64<<(i%3))
	}
	files := map[string]string{"workloads/workload-1.csv": workload.String()}
	for _, a := range Applications {
		files["traces/"+a+"/placements.csv"] = placements.String()
		files["traces/"+a+"/scalability.csv"] = scalability.String()
		for _, batch := range []int{32, 1024, 32768} {
			files[fmt.Sprintf("traces/%s/validation-%d.csv", a, batch)] = "progress,iteration,metric,grad_sqr,grad_var\n1000,700,1,1,4\n2000,1400,2,1,8\n3000,2000,3,1,16\n"
		}
	}
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}
