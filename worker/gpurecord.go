package worker

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/gpustat"
	"github.com/paragon-train/paragon/kvstore"
)

// gpusEvery is how often the GPUs are asked how they do: as often as a heartbeat carries it on.
const gpusEvery = time.Second

// recordGPUs makes the heartbeats of a worker on GPUs tell how these do, until stop is called. The
// driver is asked on a goroutine of its own, because it may take long, and a heartbeat must not.
func (t *Trainer) recordGPUs() (stop func()) {
	on := func(device string) bool { return strings.HasPrefix(device, "cuda") }
	devices := make([]string, len(t.cfg.Programs))
	for d, program := range t.cfg.Programs {
		devices[d] = program.Device()
	}
	if !slices.ContainsFunc(devices, on) {
		return func() {}
	}
	return followGPUs(t.cfg.Store.ReportGPUs, func() (gpuReader, error) { return gpustat.Open() })
}

// followGPUs reports what a reader says of the GPUs, until stop is called or it says nothing more.
func followGPUs(report func([]kvstore.GPUReport), open func() (gpuReader, error)) (stop func()) {
	end := make(chan struct{})
	var following sync.WaitGroup
	following.Go(func() {
		reader, err := open()
		if err != nil {
			return // GPUs tells a person why
		}
		defer reader.Close()
		tick := time.NewTicker(gpusEvery)
		defer tick.Stop()
		for {
			gpus, err := reader.Read()
			if err != nil {
				return
			}
			var reports []kvstore.GPUReport
			for _, g := range gpustat.Visible(gpus) {
				reports = append(reports, kvstore.GPUReport{MemoryUsed: g.MemoryUsed, MemoryTotal: g.MemoryTotal,
					Load: g.Load, Temperature: g.Temperature, Power: g.Power})
			}
			report(reports)
			select {
			case <-tick.C:
			case <-end:
				return
			}
		}
	})
	return func() {
		close(end)
		following.Wait()
	}
}
