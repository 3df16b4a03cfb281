package tune

import "time"

// A studyClock counts how long a study has run, over all processes.
type studyClock struct {
	// now is the clock on the wall, or Config.Now.
	now func() time.Time
	// opened is when this process opened the study, and before how long it had run by then.
	opened time.Time
	before time.Duration
}

// at is how long the study had run at a time of the clock on the wall.
func (c *studyClock) at(now time.Time) time.Duration { return c.before + now.Sub(c.opened) }

// elapsed is how long the study has run.
func (c *studyClock) elapsed() time.Duration { return c.at(c.now()) }
