//! SVG.

use std::collections::BTreeSet;

use roxmltree::{Document, Node};
use settled_explorer::Trace;

use crate::samples;

fn number(node: Node<'_, '_>, name: &str) -> i32 {
    node.attribute(name).unwrap().parse().unwrap()
}

fn of_class<'a>(node: Node<'a, 'a>, class: &str) -> Vec<Node<'a, 'a>> {
    let classed = |node: &Node<'_, '_>| node.attribute("class").is_some_and(|c| c.split(' ').any(|c| c == class));
    node.descendants().filter(classed).collect()
}

/// The texts in a node, without spaces: where lines are broken doesn't matter.
fn letters(node: Node<'_, '_>) -> String {
    let texts = node.descendants().filter(|node| node.has_tag_name("text")).filter_map(|node| node.text());
    texts.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect()
}

fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

fn steps<'a>(document: &'a Document<'a>) -> Vec<Node<'a, 'a>> {
    of_class(document.root(), "step")
}

#[test]
fn every_picture_is_well_formed_and_shows_every_step_in_full() {
    for (name, trace) in samples::all() {
        let svg = trace.svg();
        let document = Document::parse(&svg).unwrap_or_else(|error| panic!("{name}: {error}"));
        let drawn = steps(&document);
        assert_eq!(drawn.len(), trace.steps.len(), "{name}");
        for (index, (step, drawn)) in trace.steps.iter().zip(&drawn).enumerate() {
            assert_eq!(drawn.attribute("data-step"), Some((index + 1).to_string().as_str()), "{name}");
            let shown = letters(*drawn);
            if name != "hostile" {
                for text in [&step.text].into_iter().chain(&step.told) {
                    assert!(shown.contains(&squeezed(text)), "{name}, step {}: {text}", index + 1);
                }
                for line in &step.ledger {
                    assert!(shown.contains(&squeezed(line.trim_start_matches("ledger: "))), "{name}: {line}");
                }
            }
            let marked = !of_class(*drawn, "mark").is_empty();
            let named = shown.contains("fault:");
            assert_eq!((marked, named), (step.fault.is_some(), step.fault.is_some()), "{name}, step {}", index + 1);
        }
        let all = letters(document.root());
        for said in [trace.property.name(), trace.property.says()] {
            assert!(all.contains(&squeezed(said)), "{name}");
        }
    }
}

#[test]
fn pictures_hold_nothing_that_runs_or_is_fetched() {
    for (name, trace) in samples::all() {
        let svg = trace.svg();
        let document = Document::parse(&svg).unwrap();
        for node in document.descendants().filter(Node::is_element) {
            let tag = node.tag_name().name();
            let known = ["svg", "title", "style", "rect", "g", "text", "path", "circle"];
            assert!(known.contains(&tag), "{name}: {tag}");
            for attribute in node.attributes() {
                assert!(!attribute.name().starts_with("on") && !attribute.name().contains("href"), "{name}");
            }
        }
        assert!(!svg.contains("url(") && !svg.contains("@import"), "{name}");
    }
}

/// The boxes of a step, and its arrows' labels.
fn boxes(step: Node<'_, '_>) -> Vec<(i32, i32, i32, i32)> {
    let rects = step.descendants().filter(|node| node.has_tag_name("rect"));
    rects.map(|r| (number(r, "x"), number(r, "y"), number(r, "width"), number(r, "height"))).collect()
}

#[test]
fn boxes_do_not_overlap_and_stay_in_the_picture() {
    for (name, trace) in samples::all() {
        let svg = trace.svg();
        let document = Document::parse(&svg).unwrap();
        let root = document.root_element();
        let (width, height) = (number(root, "width"), number(root, "height"));
        assert!(width <= 1100, "{name}: {width}");
        let mut all = Vec::new();
        for step in steps(&document) {
            all.extend(boxes(step));
            for label in of_class(step, "label") {
                // A label's width isn't written down; its place is: above no other box's.
                all.push((number(label, "x") - 1, number(label, "y") - 10, 2, 12));
            }
        }
        all.extend(of_class(root, "verdict").into_iter().flat_map(|node| {
            let own = node.has_tag_name("rect").then(|| boxes(node));
            own.into_iter().flatten()
        }));
        for (at, one) in all.iter().enumerate() {
            assert!(one.0 >= 0 && one.0 + one.2 <= width && one.1 >= 0 && one.1 + one.3 <= height, "{name}: {one:?}");
            for other in &all[at + 1..] {
                let apart = one.0 + one.2 <= other.0
                    || other.0 + other.2 <= one.0
                    || one.1 + one.3 <= other.1
                    || other.1 + other.3 <= one.1;
                assert!(apart, "{name}: {one:?} and {other:?}");
            }
        }
    }
}

#[test]
fn effects_are_dots_with_numbers_on_the_tools_lane() {
    let svg = samples::charge().svg();
    let document = Document::parse(&svg).unwrap();
    let numbers = of_class(document.root(), "effect-number");
    assert_eq!(numbers.iter().map(|node| node.text().unwrap()).collect::<Vec<_>>(), ["1", "2"]);
    let names = of_class(document.root(), "lane-name");
    let tool = names.iter().find(|node| node.text() == Some("tool")).unwrap();
    assert!(numbers.iter().all(|node| (number(*node, "x") - number(*tool, "x")).abs() <= 1));
    let svg = samples::crowd().svg();
    let document = Document::parse(&svg).unwrap();
    let numbers = of_class(document.root(), "effect-number");
    assert_eq!(numbers.iter().map(|node| node.text().unwrap()).collect::<Vec<_>>(), ["1", "2–4"]);
}

#[test]
fn messages_are_shown_when_they_leave_and_when_they_are_gone() {
    let svg = samples::charge().svg();
    let document = Document::parse(&svg).unwrap();
    let shown = |step: usize| letters(steps(&document)[step - 1]);
    let request = squeezed("request to the tool: attempt 1, key 1");
    assert!(shown(3).contains(&format!("+{request}")));
    assert!(!shown(4).contains(&request));
    assert!(shown(8).contains(&format!("−{request}")));
    let names = of_class(document.root(), "lane-name");
    let network = names.iter().find(|node| node.text() == Some("network")).map(|node| number(*node, "x")).unwrap();
    for flight in of_class(steps(&document)[2], "flight") {
        assert!((number(flight, "x")..number(flight, "x") + number(flight, "width")).contains(&network));
    }
}

#[test]
fn the_legend_explains_the_marks_that_are_there() {
    let legend = |trace: &Trace| {
        let svg = trace.svg();
        let document = Document::parse(&svg).unwrap();
        of_class(document.root(), "legend").iter().map(|node| node.text().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(legend(&samples::direct()), ["a fault", "an effect"]);
    let all = [
        "a fault",
        "an effect",
        "a record in the ledger",
        "what a caller is told",
        "on its way (+), and no longer (−)",
    ];
    assert_eq!(legend(&samples::crowd()), all);
}

#[test]
fn a_round_is_framed() {
    let framed = |trace: &Trace| {
        let svg = trace.svg();
        let document = Document::parse(&svg).unwrap();
        of_class(document.root(), "round").first().map(|frame| {
            let (top, bottom) = (number(*frame, "y"), number(*frame, "y") + number(*frame, "height"));
            let rows = of_class(document.root(), "step-row").into_iter();
            let within = rows.filter(|row| top <= number(*row, "y") && number(*row, "y") < bottom);
            within.map(|row| number(row, "data-step")).collect::<BTreeSet<_>>()
        })
    };
    assert_eq!(framed(&samples::livelock()), Some(BTreeSet::from([4, 5, 6])));
    assert_eq!(framed(&samples::charge()), None);
}
