package tune

import (
	"time"

	"github.com/paragon-train/paragon/tune/jobs"
)

// appendAllocation writes the fields of an EventAllocate.
func appendAllocation(b []byte, e *Event) []byte {
	b = appendText(b, `,"rule":`, e.Rule)
	b = append(b, `,"nodes":[`...)
	for i, n := range e.Nodes {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"node":`...)
		b = appendString(b, n.Node)
		b = append(appendInt(b, `,"slots":`, n.Slots), '}')
	}
	b = append(b, `],"jobs":[`...)
	for i, j := range e.Jobs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendInt(b, `{"trial":`, j.Trial)
		b = appendPlacement(b, j.On)
		b = appendText(b, `,"profile":`, j.Profile)
		if j.ChangeCost > 0 {
			b = appendInt(b, `,"cost":`, int(j.ChangeCost))
		}
		b = append(appendText(b, `,"fixed":`, j.Fixed), '}')
	}
	return appendShares(append(b, ']'), e.Shares)
}

func appendShares(b []byte, shares []jobs.Share) []byte {
	b = append(b, `,"shares":[`...)
	for i, x := range shares {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendInt(b, `{"trial":`, x.Trial)
		b = appendPlacement(b, x.On)
		b = appendTrue(b, `,"pause":true`, x.Pause)
		b = append(appendText(b, `,"rule":`, x.Rule), '}')
	}
	return append(b, ']')
}

// appendPlacement writes nothing for an empty one.
func appendPlacement(b []byte, p jobs.Placement) []byte {
	if len(p) == 0 {
		return b
	}
	b = append(b, `,"on":{`...)
	for i, x := range p {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendInt(append(appendString(b, x.Node), ':'), "", x.Replicas)
	}
	return append(b, '}')
}

func (d *decoder) allocation(e *Event) {
	e.Rule = d.text(`,"rule":`)
	d.want(`,"nodes":[`)
	for !d.has("]") && d.err == nil {
		if len(e.Nodes) > 0 {
			d.want(",")
		}
		d.want(`{"node":`)
		n := jobs.NodeSlots{Node: d.name()}
		d.want(`,"slots":`)
		n.Slots = d.int()
		d.want("}")
		e.Nodes = append(e.Nodes, n)
	}
	d.want(`,"jobs":[`)
	for !d.has("]") && d.err == nil {
		if len(e.Jobs) > 0 {
			d.want(",")
		}
		var j jobs.State
		d.want(`{"trial":`)
		j.Trial = d.int()
		j.On = d.placement()
		j.Profile = d.text(`,"profile":`)
		if d.has(`,"cost":`) {
			if j.ChangeCost = time.Duration(d.int()); j.ChangeCost <= 0 {
				d.fail("a change that cost nothing")
			}
		}
		j.Fixed = d.text(`,"fixed":`)
		d.want("}")
		e.Jobs = append(e.Jobs, j)
	}
	d.want(`,"shares":[`)
	for !d.has("]") && d.err == nil {
		if len(e.Shares) > 0 {
			d.want(",")
		}
		var x jobs.Share
		d.want(`{"trial":`)
		x.Trial = d.int()
		x.On = d.placement()
		x.Pause = d.has(`,"pause":true`)
		x.Rule = d.text(`,"rule":`)
		d.want("}")
		e.Shares = append(e.Shares, x)
	}
	if d.err == nil && len(e.Shares) != len(e.Jobs) {
		d.fail("another number of shares than of jobs")
	}
	for i := range e.Shares {
		if d.err == nil && e.Shares[i].Trial != e.Jobs[i].Trial {
			d.fail("a share of another trial than the job before it")
		}
	}
}

func (d *decoder) placement() (p jobs.Placement) {
	if !d.has(`,"on":{`) {
		return nil
	}
	for d.err == nil {
		x := jobs.NodeReplicas{Node: d.name()}
		d.want(":")
		x.Replicas = d.int()
		if x.Replicas < 1 || p.On(x.Node) > 0 {
			d.fail("a node with no replica, or twice")
		}
		p = append(p, x)
		if d.has("}") {
			break
		}
		d.want(",")
	}
	return p
}
