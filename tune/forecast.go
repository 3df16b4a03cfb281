package tune

import (
	"fmt"
	"strconv"

	"github.com/paragon-train/paragon/tune/internal/jsonline"
)

// A Forecast is how a trial was predicted to end when it reported, and what followed from it.
// Values are as reported, not oriented.
type Forecast struct {
	// Step is the step at which the trial is expected to end.
	Step int
	// Mean is the result that is expected there, of a skewed prediction the median. With a
	// probability of 80 % the result is between Low and High.
	Mean, Low, High float64
	// Chance is the probability that the trial ends as well as the Best trials. The rule stops
	// a trial whose chance is below Bound. What differs by less than the noise of one training
	// is as good.
	Chance, Bound float64
	// Best is how many of the best trials count, at least 1.
	Best int
	// Rival is the last of the Best trials, which this one would have to equal, and Target is
	// its result without the noise of a single training: what other trials like it let expect,
	// too.
	Rival  int
	Target float64
}

// String says it in words, for people.
func (f *Forecast) String() string {
	rival := fmt.Sprintf("to end as well as the best, trial %d with %s", f.Rival, figure(f.Target))
	if f.Best > 1 {
		rival = fmt.Sprintf("to end as well as the best %d, the last of which is trial %d with %s", f.Best, f.Rival, figure(f.Target))
	}
	return fmt.Sprintf("%s expected at step %d (80 %%: %s to %s); a chance of %s %s, and the bound is %s",
		figure(f.Mean), f.Step, figure(f.Low), figure(f.High), percentage(f.Chance), rival, percentage(f.Bound))
}

// figure writes four digits, which is more than a prediction is good for.
func figure(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

// percentage writes a probability in percent, with two digits of a small one.
func percentage(p float64) string {
	switch {
	case p > 0 && p < 1e-4:
		return "less than 0.01 %"
	case p < 0.1:
		return strconv.FormatFloat(100*p, 'g', 2, 64) + " %"
	}
	return strconv.FormatFloat(100*p, 'f', 0, 64) + " %"
}

// appendJSON writes the forecast as a field of a decision.
func (f *Forecast) appendJSON(b []byte) []byte {
	b = jsonline.AppendInt(b, `,"forecast":{"step":`, f.Step)
	for _, x := range []struct {
		key   string
		value float64
	}{{`,"mean":`, f.Mean}, {`,"low":`, f.Low}, {`,"high":`, f.High}, {`,"chance":`, f.Chance}, {`,"bound":`, f.Bound}, {`,"target":`, f.Target}} {
		b = jsonline.AppendNumber(append(b, x.key...), x.value)
	}
	b = jsonline.AppendInt(b, `,"rival":`, f.Rival)
	b = jsonline.AppendInt(b, `,"best":`, f.Best)
	return append(b, '}')
}

// scanForecast reads what appendJSON wrote, if it is next.
func scanForecast(d *jsonline.Scanner) *Forecast {
	if !d.Has(`,"forecast":{"step":`) {
		return nil
	}
	f := &Forecast{Step: d.Int()}
	for _, x := range []struct {
		key string
		to  *float64
	}{{`,"mean":`, &f.Mean}, {`,"low":`, &f.Low}, {`,"high":`, &f.High}, {`,"chance":`, &f.Chance}, {`,"bound":`, &f.Bound}, {`,"target":`, &f.Target}} {
		d.Want(x.key)
		*x.to = d.Number()
	}
	d.Want(`,"rival":`)
	f.Rival = d.Int()
	d.Want(`,"best":`)
	f.Best = d.Int()
	d.Want("}")
	return f
}
