package worker

import (
	"time"

	"github.com/paragon-train/paragon/adapt"
)

// SetModel gives the choices of an adapting run a clock and a model of the time of steps, so that
// they repeat.
func (c *AdaptConfig) SetModel(now func() time.Time, model adapt.Model) {
	c.now, c.model = now, func([]adapt.Timing) (adapt.Model, error) { return model, nil }
}

// SeeTimings gives a run a clock, and passes the times that its model is fitted to.
func (c *AdaptConfig) SeeTimings(now func() time.Time, see func([]adapt.Timing)) {
	c.now, c.model = now, func(t []adapt.Timing) (adapt.Model, error) {
		see(t)
		return adapt.FitParameterServer(t, adapt.Cluster{Bytes: 1, Servers: 1})
	}
}
