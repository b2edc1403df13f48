//! How time and states grow with the bounds, as a picture (SVG).

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;
use settled_model::{Description, Fault, library};

use crate::measure;
use crate::suite::SuiteError;
use crate::work::{By, Model, Work};

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The protocol.
    pub protocol: &'static str,
    /// What grows.
    pub over: Over,
    /// How far.
    pub bound: u8,
    /// With which reductions.
    pub by: By,
    /// Distinct states.
    pub states: usize,
    /// Time to the verdict.
    pub seconds: f64,
    /// Whether everything was explored; if not, the numbers are those at which it was stopped.
    pub finished: bool,
}

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// How often each fault may happen.
    Faults,
    /// How many operations there are.
    Operations,
}

/// What is drawn: protocol by protocol, over both.
pub const PROTOCOLS: [&str; 2] = ["settled-sealable", "settled-opaque"];

const SERIES: [(By, &str, RGBColor); 3] = [
    (By::Settled, "all reductions", RGBColor(0, 114, 178)),
    (By::SettledCounting, "all but “any number of faults”", RGBColor(0, 158, 115)),
    (By::SettledUnreduced, "no reductions", RGBColor(213, 94, 0)),
];

/// Runs them all, each for at most this many seconds. Where one isn't finished, larger bounds are left out.
///
/// # Errors
/// [`SuiteError`] if a protocol can't be read or built.
pub fn points(seconds: u64, threads: usize) -> Result<Vec<Point>, SuiteError> {
    let mut points = Vec::new();
    for protocol in PROTOCOLS {
        let description = library::load(protocol)?;
        for (over, bounds) in [(Over::Faults, 0..=3), (Over::Operations, 1..=3)] {
            for (by, _, _) in SERIES {
                for bound in bounds.clone() {
                    let model = Model::Protocol(Box::new(with(&description, over, bound)));
                    let work = Work { model, by, threads, seconds };
                    let mut failed = None;
                    let its = measure::here(|| {
                        work.run().unwrap_or_else(|error| {
                            failed = Some(error);
                            Default::default()
                        })
                    });
                    if let Some(error) = failed {
                        return Err(error.into());
                    }
                    let (states, finished) = (its.counted.unique_states, its.counted.exhaustive);
                    points.push(Point { protocol, over, bound, by, states, seconds: its.seconds, finished });
                    if !finished {
                        break;
                    }
                }
            }
        }
    }
    Ok(points)
}

fn with(description: &Description, over: Over, bound: u8) -> Description {
    let mut its = description.clone();
    match over {
        Over::Operations => its.caller.operations = bound,
        Over::Faults => {
            for fault in Fault::ALL {
                let its = its.faults.of(*fault);
                *its = if *its > 0 { bound } else { 0 };
            }
        }
    }
    its
}

const SIZE: (u32, u32) = (1240, 780);
const FONT: &str = "Helvetica, Arial, sans-serif";

/// Draws them.
///
/// # Errors
/// If the picture can't be drawn.
pub fn svg(points: &[Point]) -> Result<String, Box<dyn Error + '_>> {
    let mut text = String::new();
    {
        let all = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        all.fill(&WHITE)?;
        let (head, body) = all.split_vertically(64);
        legend(&head)?;
        let (states, seconds) = body.split_vertically((SIZE.1 - 64) / 2);
        for (row, area) in [states, seconds].iter().enumerate() {
            for (column, area) in area.split_evenly((1, 4)).iter().enumerate() {
                let over = if column % 2 == 0 { Over::Faults } else { Over::Operations };
                let protocol = PROTOCOLS[column / 2];
                let its: Vec<_> = points.iter().filter(|its| its.over == over && its.protocol == protocol).collect();
                panel(area, &its, protocol, over, row == 0)?;
            }
        }
        all.present()?;
    }
    Ok(text)
}

type Area<'a, 'b> = DrawingArea<SVGBackend<'a>, Shift>;

fn legend(area: &Area<'_, '_>) -> Result<(), Box<dyn Error>> {
    area.draw_text("What the bounds cost", &(FONT, 20).into_font().into_text_style(area), (16, 8))?;
    let style = (FONT, 14).into_font().into_text_style(area);
    let mut left = 20;
    for (_, name, color) in SERIES {
        area.draw(&PathElement::new(vec![(left, 48), (left + 30, 48)], color.stroke_width(2)))?;
        area.draw(&Circle::new((left + 15, 48), 4, color.filled()))?;
        area.draw_text(name, &style, (left + 38, 41))?;
        left += 70 + 7 * name.chars().count() as i32;
    }
    area.draw(&Circle::new((left + 15, 48), 4, BLACK.stroke_width(1)))?;
    area.draw_text("stopped before the end: at least this much", &style, (left + 28, 41))?;
    Ok(())
}

fn panel(
    area: &Area<'_, '_>,
    points: &[&Point],
    protocol: &str,
    over: Over,
    states: bool,
) -> Result<(), Box<dyn Error>> {
    let value = |point: &Point| if states { point.states.max(1) as f64 } else { point.seconds.max(1e-5) };
    let (title, x, bounds) = match over {
        Over::Faults => (format!("{protocol}: faults"), "how often each fault may happen", -0.2..3.2),
        Over::Operations => (format!("{protocol}: operations"), "operations", 0.8..3.2),
    };
    let y = if states { "distinct states" } else { "seconds to the verdict" };
    let range = if states { 1.0..1e8 } else { 1e-5..1e2 };
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(title, (FONT, 16))
        .x_label_area_size(38)
        .y_label_area_size(58)
        .build_cartesian_2d(bounds, range.log_scale())?;
    chart
        .configure_mesh()
        .x_desc(x)
        .y_desc(y)
        .x_labels(4)
        .x_label_formatter(&|x: &f64| if (x - x.round()).abs() < 0.01 { format!("{x:.0}") } else { String::new() })
        .y_label_formatter(&|y| power_of_ten(*y))
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .label_style((FONT, 12))
        .axis_desc_style((FONT, 13))
        .draw()?;
    for (by, _, color) in SERIES {
        let its: Vec<_> = points.iter().filter(|point| point.by == by).collect();
        let line = its.iter().map(|point| (f64::from(point.bound), value(point)));
        chart.draw_series(LineSeries::new(line, color.stroke_width(2)))?;
        chart.draw_series(its.iter().map(|point| {
            let style = if point.finished { color.filled() } else { color.stroke_width(2) };
            Circle::new((f64::from(point.bound), value(point)), 4, style)
        }))?;
    }
    Ok(())
}

fn power_of_ten(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{:.0} M", value / 1e6),
        _ if value >= 1e3 => format!("{:.0} k", value / 1e3),
        _ if value >= 1.0 => format!("{value:.0}"),
        _ => format!("{value}"),
    }
}
