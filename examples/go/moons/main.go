// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// moons PACKAGE CHECKPOINTS LAST_STEP: what examples/embed does in C, with the same numbers. It goes on from the newest
// checkpoint, trains up to a step, saves, and evaluates.
package main

import (
	"fmt"
	"math"
	"os"
	"strconv"

	"trainrt/examples/go/trainrt"
)

const batchRows, heldOut = 32, 512

// draw is splitmix64, in [0, 1).
func draw(state *uint64) float64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}

// moons are points on two half circles with noise, and their half circles; the same number gives the same points.
func moons(number uint64, count int) (points []float32, labels []int64) {
	state := number * 0x2545f4914f6cdd1d
	for i := 0; i < count; i++ {
		upper := draw(&state) < 0.5
		angle := math.Pi * draw(&state)
		x, y, label := math.Cos(angle), math.Sin(angle), int64(0)
		if !upper {
			x, y, label = 1-x, 0.5-y, 1
		}
		x += 0.3 * (draw(&state) - 0.5)
		y += 0.3 * (draw(&state) - 0.5)
		points = append(points, float32(x), float32(y))
		labels = append(labels, label)
	}
	return points, labels
}

func run(path, checkpoints string, lastStep int64) error {
	compiled, err := trainrt.Open(path)
	if err != nil {
		return err
	}
	defer compiled.Close()
	session, err := trainrt.NewSession(compiled, trainrt.Options{Threads: 1})
	if err != nil {
		return err
	}
	defer session.Close()
	resumed, err := session.Load(checkpoints)
	if err != nil {
		return err
	}
	if resumed {
		fmt.Printf("resumed after step %d\n", session.Steps())
	}
	// The data of a step follows from its number: so a resumed run sees what it would have seen.
	for session.Steps() < lastStep {
		points, labels := moons(uint64(session.Steps())+1, batchRows)
		step, err := session.Step(trainrt.Batch{
			"points": trainrt.Array(points, batchRows, 2), "labels": trainrt.Array(labels, batchRows),
		})
		if err != nil {
			return err
		}
		if step.Number%500 == 0 {
			fmt.Printf("step %d: loss %.6f\n", step.Number, step.Loss)
		}
	}
	if err := session.Save(checkpoints, 1); err != nil {
		return err
	}

	points, labels := moons(0, heldOut)
	batch := trainrt.Batch{"points": trainrt.Array(points, heldOut, 2)}
	logits, err := trainrt.Predict[float32](session, batch, "logits")
	if err != nil {
		return err
	}
	right := 0
	for i, label := range labels {
		if (logits[2*i+1] > logits[2*i]) == (label == 1) {
			right++
		}
	}
	batch["labels"] = trainrt.Array(labels, heldOut)
	loss, err := session.Evaluate(batch)
	if err != nil {
		return err
	}
	fmt.Printf("held out: loss %.6f, %d of %d right\n", loss, right, heldOut)
	return nil
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: moons PACKAGE CHECKPOINTS LAST_STEP")
		os.Exit(2)
	}
	lastStep, err := strconv.ParseInt(os.Args[3], 10, 64)
	if err == nil {
		err = run(os.Args[1], os.Args[2], lastStep)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "moons:", err)
		os.Exit(1)
	}
}
