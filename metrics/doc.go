// Package metrics collects and shows the results of a training run.
//
// Mean and Accuracy add up the scores of batches, Table aligns them in columns, a Panel holds them
// as curves, which package metrics/plot draws, and EventFile writes what TensorBoard shows. None of
// them knows of jobs or models, so they serve any loop:
//
//	for {
//		// forward and backward
//		loss.Add(batchLoss, float64(batch.N))
//		accuracy.AddLogits(logits, batch.Labels[:batch.N], classes)
//	}
//	table := metrics.Table{Columns: []string{"loss", "accuracy"}}
//	table.Row(metrics.Fixed(loss.Value()), metrics.Percent(accuracy.Value()))
//
// A Mean and an Accuracy belong to one goroutine.
package metrics
