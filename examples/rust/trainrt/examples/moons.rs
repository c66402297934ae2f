// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! moons PACKAGE CHECKPOINTS LAST_STEP: what examples/embed does in C, with the same numbers. It goes on from the newest
//! checkpoint, trains up to a step, saves, and evaluates.
use trainrt::{Batch, Options, Package, Session};

const BATCH: usize = 32;
const HELD_OUT: usize = 512;

/// splitmix64, in [0, 1).
fn draw(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e3779b97f4a7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// Points on two half circles with noise, and their half circles; the same number gives the same points.
fn moons(number: u64, count: usize) -> (Vec<f32>, Vec<i64>) {
    let mut state = number.wrapping_mul(0x2545f4914f6cdd1d);
    let (mut points, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let upper = draw(&mut state) < 0.5;
        let angle = std::f64::consts::PI * draw(&mut state);
        let (x, y) = if upper {
            (angle.cos(), angle.sin())
        } else {
            (1.0 - angle.cos(), 0.5 - angle.sin())
        };
        points.push((x + 0.3 * (draw(&mut state) - 0.5)) as f32);
        points.push((y + 0.3 * (draw(&mut state) - 0.5)) as f32);
        labels.push(i64::from(!upper));
    }
    (points, labels)
}

fn run(package: &str, checkpoints: &str, last_step: i64) -> trainrt::Result<()> {
    let package = Package::open(package)?;
    let mut session = Session::new(&package, Options { threads: 1, seed: 0 })?;
    if let Some(step) = session.load(checkpoints)? {
        println!("resumed after step {step}");
    }
    // The data of a step follows from its number: so a resumed run sees what it would have seen.
    while session.steps() < last_step {
        let (points, labels) = moons(session.steps() as u64 + 1, BATCH);
        let batch = Batch::new().add("points", &points, &[BATCH, 2]).add("labels", &labels, &[BATCH]);
        let step = session.step(&batch)?;
        if step.number % 500 == 0 {
            println!("step {}: loss {:.6}", step.number, step.loss);
        }
    }
    session.save(checkpoints, 1)?;

    let (points, labels) = moons(0, HELD_OUT);
    let batch = Batch::new().add("points", &points, &[HELD_OUT, 2]);
    let logits: Vec<f32> = session.predict(&batch, "logits")?;
    let right = (0..HELD_OUT).filter(|&i| (logits[2 * i + 1] > logits[2 * i]) == (labels[i] == 1)).count();
    let loss = session.evaluate(&batch.add("labels", &labels, &[HELD_OUT]))?;
    println!("held out: loss {loss:.6}, {right} of {HELD_OUT} right");
    Ok(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.len() != 4 {
        eprintln!("usage: moons PACKAGE CHECKPOINTS LAST_STEP");
        std::process::exit(2);
    }
    let last_step = arguments[3].parse().expect("a number of steps");
    if let Err(error) = run(&arguments[1], &arguments[2], last_step) {
        eprintln!("moons: {error}");
        std::process::exit(1);
    }
}
