package searchpage

import "github.com/paragon-train/paragon/internal/observe/page"

// A Study is the search that a page shows. Its methods may be called at any time from one goroutine
// of each browser.
type Study interface {
	// Summary is what is known of the study as a whole, without Hosts and Importance, and how
	// many trials run at each location.
	Summary() (page.SearchUpdate, map[string]int)
	// Len is how many trials there are, and Rows are those of these numbers.
	Len() int
	Rows(numbers []int) []page.SearchRow
	// Hosts are the machines that run trials.
	Hosts(running map[string]int) []page.SearchHost
	// Curve is the study's metric of a trial, Detail all that is known of it but its History.
	Curve(trial int) (page.SearchCurve, bool)
	Detail(trial int) (page.SearchDetail, bool)
}

// A Param is a parameter of the search.
type Param struct {
	page.SearchParam
	// Weighed says that the parameter's importance is measured. Count is how many values it
	// has (0: any number), and ToUnit maps a value into [0, 1].
	Weighed bool
	Count   int
	ToUnit  func(value any) float64
}
