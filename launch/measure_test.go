package main

import (
	"flag"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// measure asks for the table of docs/how-to/agents.md: how long launch takes for what, with each
// start method.
//
//	go test ./launch -run MeasureStartMethods -count=1 -v -args -measure
var measure = flag.Bool("measure", false, "measure the start methods, and print a table")

func TestMeasureStartMethods(t *testing.T) {
	if !*measure {
		t.Skip("it measures: give -args -measure")
	}
	needProc(t)
	var table strings.Builder
	fmt.Fprintln(&table, "| | start | lost host | joining host | Ctrl-C | kill -9 of launch | exit 3 of a worker | evicted host | processes left |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	all := sites
	all = append(all[:len(all):len(all)], all[0])
	all[len(sites)].name, all[len(sites)].make = "mpi", mpiSite // it passes tests of its own
	for _, site := range all {
		t.Run(site.name, func(t *testing.T) {
			left := 0
			count := func(job string) { left += len(processesOf(job, "")) }
			since := func(at time.Time) string { return fmt.Sprintf("%.1f s", time.Since(at).Seconds()) }

			s := site.make(t, 3)
			at := time.Now()
			j := s.elastic(t, 2)
			row := []string{site.name, since(at)}
			at = time.Now()
			s.lose(t, 1)
			j.await(t, "worker 0  | goes on as 0 of 1")
			row = append(row, since(at))
			at = time.Now()
			s.join(t, j, 2)
			j.await(t, "goes on as 0 of 2")
			row = append(row, since(at))
			job := j.job(t)
			at = time.Now()
			j.Process.Signal(syscall.SIGINT)
			code := j.exit(t)
			row = append(row, fmt.Sprintf("%s, code %d", since(at), code))
			count(job)

			s = site.make(t, 2)
			l, job := s.stubbornJob(t)
			at = time.Now()
			l.Process.Kill()
			wantNoProcess(t, job, at)
			row = append(row, since(at))
			count(job)

			s = site.make(t, 2)
			l = s.launch(t, "-n", "2", "-s", "1", `if [ $PARAGON_RANK = 1 ]; then echo fails; exit 3; fi; sleep 1000 & wait`)
			l.await(t, "worker 1  | fails")
			at = time.Now()
			code = l.exit(t)
			row = append(row, fmt.Sprintf("%s, code %d", since(at), code))
			count(l.job(t))

			s = site.make(t, 2)
			if s.evict == nil {
				row = append(row, "no notice")
			} else {
				j = s.elastic(t, 2)
				at = time.Now()
				s.evict(t, 1)
				j.await(t, "goes on as 0 of 1")
				gone := since(at)
				code = s.ended(t, 1)
				row = append(row, fmt.Sprintf("%s, its agent ends with %d after %s", gone, code, since(at)))
				j.finish(t)
				count(j.job(t))
			}
			fmt.Fprintf(&table, "| %s | %d |\n", strings.Join(row, " | "), left)
		})
	}
	t.Logf("\n%s", &table)
}
