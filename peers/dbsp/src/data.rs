//! Types of columns as data of dbsp, which wants to be able to measure them and to write them to storage.

use dbsp::{never_none, never_roaring_filter};
use rkyv::string::{ArchivedString, StringResolver};
use rkyv::{Archive, Deserialize, Fallible, Serialize, SerializeUnsized};
use size_of::{Context, SizeOf};

use crate::types::{Text, Word};

never_none!(Word, Text);
never_roaring_filter!(Word, Text);

impl SizeOf for Word {
    fn size_of_children(&self, _: &mut Context) {}
}

impl Archive for Word {
    type Archived = u32;
    type Resolver = ();

    unsafe fn resolve(&self, position: usize, (): (), archived: *mut u32) {
        unsafe { self.0.resolve(position, (), archived) }
    }
}

impl<S: Fallible + ?Sized> Serialize<S> for Word {
    fn serialize(&self, _: &mut S) -> Result<(), S::Error> {
        Ok(())
    }
}

impl<D: Fallible + ?Sized> Deserialize<Word, D> for u32 {
    fn deserialize(&self, _: &mut D) -> Result<Word, D::Error> {
        Ok(Word(*self))
    }
}

impl SizeOf for Text {
    fn size_of_children(&self, context: &mut Context) {
        context.add(self.bytes().len());
    }
}

impl Archive for Text {
    type Archived = ArchivedString;
    type Resolver = StringResolver;

    unsafe fn resolve(&self, position: usize, resolver: StringResolver, archived: *mut ArchivedString) {
        unsafe { ArchivedString::resolve_from_str(self.text(), position, resolver, archived) }
    }
}

impl<S: Fallible + ?Sized> Serialize<S> for Text
where
    str: SerializeUnsized<S>,
{
    fn serialize(&self, serializer: &mut S) -> Result<StringResolver, S::Error> {
        ArchivedString::serialize_from_str(self.text(), serializer)
    }
}

impl<D: Fallible + ?Sized> Deserialize<Text, D> for ArchivedString {
    fn deserialize(&self, _: &mut D) -> Result<Text, D::Error> {
        Ok(Text::from(self.as_str()))
    }
}
