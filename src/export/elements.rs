//! Where the known elements of graphs lie: in the object, each content once, or in the file of weights.

use super::ExportError;
use super::code_module::CodeModule;
use super::interface::Graph;
use super::weights::ExternalWeights;
use crate::graph::memory::ALIGNMENT;
use crate::graph::program::Place;
use crate::graph::{Constant, DistinctConstants};
use cranelift_module::{DataDescription, DataId, Linkage, Module};
use std::collections::HashMap;

/// Where the elements of a tensor lie.
#[derive(Clone, Copy)]
pub(super) enum Elements {
    /// In the object.
    Inside(DataId),
    /// In the external weights, this many bytes behind their begin.
    Outside(u64),
}

/// The known elements of all graphs of an object.
pub(super) struct KnownElements<'a> {
    external: Option<&'a ExternalWeights>,
    /// What the object contains.
    contents: DistinctConstants,
    /// Its data, in the same order.
    data: Vec<DataId>,
}

impl<'a> KnownElements<'a> {
    /// None yet. They will lie in the file, if there is one.
    pub(super) fn new(external: Option<&'a ExternalWeights>) -> KnownElements<'a> {
        KnownElements { external, contents: DistinctConstants::default(), data: Vec::new() }
    }

    /// Where those of a graph lie. What the object does not contain yet is defined as data.
    pub(super) fn of_graph(
        &mut self,
        module: &mut CodeModule,
        graph: &Graph,
    ) -> Result<HashMap<Place, Elements>, ExportError> {
        let place = |(place, constant): &(Place, Constant)| {
            let elements = match self.external {
                None => Elements::Inside(self.inside(module, constant)?),
                Some(file) => {
                    let offset = file.offset(constant);
                    Elements::Outside(offset.ok_or(ExportError::UnknownElements { place: *place })?)
                }
            };
            Ok((*place, elements))
        };
        graph.known.iter().map(place).collect()
    }

    fn inside(&mut self, module: &mut CodeModule, constant: &Constant) -> Result<DataId, ExportError> {
        let position = self.contents.insert(constant);
        if let Some(&known) = self.data.get(position) {
            return Ok(known);
        }
        let id = module.declare_data(&format!("constant.{position}"), Linkage::Local, false, false)?;
        let mut description = DataDescription::new();
        description.set_align(ALIGNMENT as u64);
        match constant.data() {
            [] => description.define_zeroinit(ALIGNMENT),
            data => description.define(data.to_vec().into()),
        }
        module.define_data(id, &description)?;
        self.data.push(id);
        Ok(id)
    }
}
