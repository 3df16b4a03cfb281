package tune

import (
	"time"

	"github.com/paragon-train/paragon/tune/jobs"

	"github.com/paragon-train/paragon/tune/internal/jsonline"
)

// appendAllocation writes the fields of an EventAllocate.
func appendAllocation(b []byte, e *Event) []byte {
	b = jsonline.AppendText(b, `,"rule":`, e.Rule)
	b = append(b, `,"nodes":[`...)
	for i, n := range e.Nodes {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"node":`...)
		b = jsonline.AppendString(b, n.Node)
		b = append(jsonline.AppendInt(b, `,"slots":`, n.Slots), '}')
	}
	b = append(b, `],"jobs":[`...)
	for i, j := range e.Jobs {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonline.AppendInt(b, `{"trial":`, j.Trial)
		b = appendPlacement(b, j.On)
		b = jsonline.AppendText(b, `,"profile":`, j.Profile)
		if j.ChangeCost > 0 {
			b = jsonline.AppendInt(b, `,"cost":`, int(j.ChangeCost))
		}
		b = append(jsonline.AppendText(b, `,"fixed":`, j.Fixed), '}')
	}
	return appendShares(append(b, ']'), e.Shares)
}

// appendShares writes what was decided for each job.
func appendShares(b []byte, shares []jobs.Share) []byte {
	b = append(b, `,"shares":[`...)
	for i, x := range shares {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonline.AppendInt(b, `{"trial":`, x.Trial)
		b = appendPlacement(b, x.On)
		b = jsonline.AppendTrue(b, `,"pause":true`, x.Pause)
		b = append(jsonline.AppendText(b, `,"rule":`, x.Rule), '}')
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
		b = jsonline.AppendInt(append(jsonline.AppendString(b, x.Node), ':'), "", x.Replicas)
	}
	return append(b, '}')
}

// scanAllocation reads the fields of an EventAllocate. There is a share for each job, in their
// order.
func scanAllocation(d *jsonline.Scanner, e *Event) {
	e.Rule = d.Text(`,"rule":`)
	d.Want(`,"nodes":[`)
	for !d.Has("]") && d.Err() == nil {
		if len(e.Nodes) > 0 {
			d.Want(",")
		}
		d.Want(`{"node":`)
		n := jobs.NodeSlots{Node: d.Name()}
		d.Want(`,"slots":`)
		n.Slots = d.Int()
		d.Want("}")
		e.Nodes = append(e.Nodes, n)
	}
	d.Want(`,"jobs":[`)
	for !d.Has("]") && d.Err() == nil {
		if len(e.Jobs) > 0 {
			d.Want(",")
		}
		var j jobs.State
		d.Want(`{"trial":`)
		j.Trial = d.Int()
		j.On = scanPlacement(d)
		j.Profile = d.Text(`,"profile":`)
		if d.Has(`,"cost":`) {
			if j.ChangeCost = time.Duration(d.Int()); j.ChangeCost <= 0 {
				d.Fail("a change that cost nothing")
			}
		}
		j.Fixed = d.Text(`,"fixed":`)
		d.Want("}")
		e.Jobs = append(e.Jobs, j)
	}
	d.Want(`,"shares":[`)
	for !d.Has("]") && d.Err() == nil {
		if len(e.Shares) > 0 {
			d.Want(",")
		}
		var x jobs.Share
		d.Want(`{"trial":`)
		x.Trial = d.Int()
		x.On = scanPlacement(d)
		x.Pause = d.Has(`,"pause":true`)
		x.Rule = d.Text(`,"rule":`)
		d.Want("}")
		e.Shares = append(e.Shares, x)
	}
	if d.Err() == nil && len(e.Shares) != len(e.Jobs) {
		d.Fail("another number of shares than of jobs")
	}
	for i := range e.Shares {
		if d.Err() == nil && e.Shares[i].Trial != e.Jobs[i].Trial {
			d.Fail("a share of another trial than the job before it")
		}
	}
}

// scanPlacement reads what appendPlacement wrote, if it is next.
func scanPlacement(d *jsonline.Scanner) (p jobs.Placement) {
	if !d.Has(`,"on":{`) {
		return nil
	}
	for d.Err() == nil {
		x := jobs.NodeReplicas{Node: d.Name()}
		d.Want(":")
		x.Replicas = d.Int()
		if x.Replicas < 1 || p.On(x.Node) > 0 {
			d.Fail("a node with no replica, or twice")
		}
		p = append(p, x)
		if d.Has("}") {
			break
		}
		d.Want(",")
	}
	return p
}
