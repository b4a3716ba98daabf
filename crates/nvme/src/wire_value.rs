//! Values of wire fields as enumerations. It keeps out the meaning of each.

/// Gives an enumeration with the values of a field the function that reads the field.
macro_rules! from_wire {
    ($kind:ident: $($variant:ident)*) => {
        impl $kind {
            /// The variant with this value, `None` for a reserved one.
            pub const fn from_wire(field: u8) -> Option<Self> {
                match field {
                    $(value if value == Self::$variant as u8 => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use from_wire;
