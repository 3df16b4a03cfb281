package metrics

// A Series is one line of a Panel. X and Y are equally long; points that are
// not finite are left out. Its colour goes by its place in the panel: one
// without points takes up a colour and nothing else.
type Series struct {
	Name string
	X, Y []float64
	// Smooth draws the mean of so many points around each as the line, and the
	// points themselves faintly behind it. Zero draws the points as the line.
	Smooth int
	// Faint draws a thin grey line: one of many that stand behind the others. It has no place
	// in the legend.
	Faint bool
	// Ahead is where the line is expected to go on to. nil: it is at its end.
	Ahead *Ahead
}

// An Ahead is the expected end of a Series: a dashed line leads there from its last point, and a
// band widens to what is between Low and High. Axes have room for most of it, and not for a band
// that is many times as high as the curves.
type Ahead struct{ X, Y, Low, High float64 }

// A Panel is one picture of curves: a title, named axes, a legend. It is plain
// data: package metrics/plot draws it.
type Panel struct {
	Title, X, Y string
	Series      []Series
	// Percent marks Y, in [0, 1], in percent.
	Percent bool
	// FirstOnTop draws the first series last, over the others. Faint ones stay behind.
	FirstOnTop bool
	// FromZero begins the X axis at 0 also where no series does.
	FromZero bool
}

// Colours is how many series of a panel have colours of their own; then they begin again.
const Colours = 7
