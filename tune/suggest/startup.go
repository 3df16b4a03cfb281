package suggest

// leastFinished is the number of finished trials from which on a model is asked, if trials that run
// make up for those that the start lacks.
const leastFinished = 3

// starting says whether proposals are still quasi-random: fewer than n trials have finished or run,
// or fewer than leastFinished have finished. Trials that run count, since they are of the start
// themselves: with eight at once a search would else begin with seven more of them than one at a
// time.
func starting(recs []record, n int) bool {
	done, running := 0, 0
	for i := range recs {
		switch {
		case recs[i].finished():
			done++
		case recs[i].state == recordRunning:
			running++
		}
	}
	return done+running < n || done < min(n, leastFinished)
}
