// Package metrics collects and shows the results of a training run: mean loss,
// accuracy, event files, and the table and the picture of curves at the end.
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
