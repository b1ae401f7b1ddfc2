//! Parts of a view that change. Every closure in a view is a type, and Leptos compiles its way of updating once for each;
//! boxed they share one, which is a tenth of what the browser downloads.

use leptos::prelude::*;

/// A boxed part.
pub type Part = Box<dyn FnMut() -> AnyView + Send>;

/// What `make` makes, again whenever a signal that it reads changes. In a view: `{part(move || …)}`.
pub fn part<V: IntoAny>(mut make: impl FnMut() -> V + Send + 'static) -> Part {
    Box::new(move || make().into_any())
}

/// The same for an attribute, a class, a property: `class=attr(move || …)`.
pub fn attr<V: 'static>(make: impl FnMut() -> V + Send + 'static) -> Box<dyn FnMut() -> V + Send> {
    Box::new(make)
}

/// An effect, boxed for the same reason. What `act` returns is of no interest.
pub fn effect<T>(mut act: impl FnMut() -> T + 'static) {
    let mut act: Box<dyn FnMut()> = Box::new(move || {
        act();
    });
    Effect::new(move |_| act());
}
